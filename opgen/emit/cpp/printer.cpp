#include "opgen/emit/cpp/printer.h"

#include <fmt/format.h>

#include <algorithm>

#include "opgen/emit/cpp/options.h"
#include "opgen/emit/cpp/types.h"
#include "opgen/text/strings.h"

namespace opgen::cpp {
namespace {

int precedence_of(Operator operation) {
  switch (operation) {
    case Operator::none:
      return 8;
    case Operator::negate:
    case Operator::logical_not:
      return 6;
    case Operator::add:
    case Operator::subtract:
      return 4;
    case Operator::multiply:
    case Operator::divide:
    case Operator::modulo:
      return 5;
    case Operator::logical_and:
      return 2;
    case Operator::logical_or:
      return 1;
    default:
      return 3;
  }
}

/// `grads[2]` of a result that is a list: the others are not made.
bool one_gradient(const Term& term) {
  return term.is(TermKind::index) && term.arguments.size() == 2 && term.arguments[0]->reads(Symbol::What::gradients) &&
         term.arguments[1]->is(TermKind::literal);
}

/// Whether the value is, in some case, a list that is written out.
bool makes_list(const Term& term) {
  if (term.is(TermKind::condition)) return makes_list(*term.arguments[1]) || makes_list(*term.arguments[2]);
  return term.is(TermKind::list) || (term.is(TermKind::conversion) && makes_list(*term.arguments[0]));
}

}  // namespace

std::string condition_at_call(const Op& op, const TermPtr& condition) {
  Place place;
  for (size_t i = 0; i < op.schema.arguments.size(); ++i) {
    place.read(Symbol::What::argument, i, op.schema.arguments[i].name);
    place.shadowing.insert(op.schema.arguments[i].name);
    if (op.takes_rows())
      place.parts[{{Symbol::What::argument, i}, Symbol::How::sizes}] = op.schema.arguments[i].name + ".sizes()";
  }
  return Printer(place)(condition);
}

std::vector<std::string> Printer::declare(const std::vector<Let>& lets, Place& place) {
  std::vector<std::string> declarations;
  for (size_t i = 0; i < lets.size(); ++i) {
    place.shadowing.insert(lets[i].name);
    const Printer printer(place);
    declarations.push_back(printer.declaration(lets[i]));
    if (printer.repeats(*lets[i].value)) place.repeated.insert({Symbol::What::let, i});
    const std::string summed_to = printer.operand_sizes(*lets[i].value);
    if (!summed_to.empty()) place.operand_sizes[{Symbol::What::let, i}] = summed_to;
    place.read(Symbol::What::let, i, lets[i].name);
  }
  return declarations;
}

/// A list that is written out, or chosen, owns its elements: what a TensorList or Ints shows would be gone behind the `;`.
std::string Printer::declaration(const Let& let) const {
  const Term& value = *let.value;
  const bool made = makes_list(value);
  if (made && value.type.is_list_of(Base::tensor))
    return fmt::format("const std::vector<Tensor> {} = {};", let.name, tensors(value));
  if (made && value.type.list) return fmt::format("const {} {} = {};", owned_type(value.type), let.name, owning_list(value));
  return fmt::format("const auto {} = {};", let.name, operand(value));
}

std::string Printer::owning_list(const Term& list) const {
  if (list.is(TermKind::conversion) && list.arguments[0]->type.list) return owning_list(*list.arguments[0]);
  if (list.is(TermKind::condition))
    return fmt::format("{} ? {} : {}", within(*list.arguments[0], 1), owning_list(*list.arguments[1]),
                       owning_list(*list.arguments[2]));
  const std::string text = print(list).text;
  return list.is(TermKind::list) ? owned_type(list.type) + text : fmt::format("{}({})", owned_type(list.type), text);
}

std::vector<std::string> Printer::all(const std::vector<TermPtr>& terms) const {
  std::vector<std::string> parts;
  for (const TermPtr& term : terms) parts.push_back(print(*term).text);
  return parts;
}

std::string Printer::within(const Term& term, int at_least) const {
  const Printed printed = print(term);
  return printed.precedence < at_least ? "(" + printed.text + ")" : printed.text;
}

/// Whether the value may be rows that repeat.
bool Printer::repeats(const Term& term) const {
  if (term.is(TermKind::read)) return place_.repeated.count({term.symbol.what, term.symbol.index}) > 0;
  return term.is(TermKind::op) && term.op->name() == "segment_broadcast";
}

bool Printer::is_nested(const Term& term) const {
  return term.is(TermKind::read) && place_.nested.count({term.symbol.what, term.symbol.index}) > 0;
}

std::string Printer::operand(const Term& term) const {
  if (!repeats(term)) return print(term).text;
  if (term.is(TermKind::read)) return place_.reads.at({term.symbol.what, term.symbol.index});
  return "launch::repeat_by(" + join(all(term.arguments)) + ")";
}

/// A list of tensors as a vector: one that is written out, an argument and the result of a call are of three types.
std::string Printer::tensors(const Term& term) const {
  if (term.is(TermKind::conversion)) return tensors(*term.arguments[0]);
  if (term.is(TermKind::literal)) return "std::vector<Tensor>{}";
  if (term.is(TermKind::list)) return "std::vector<Tensor>{" + join(all(term.arguments)) + "}";
  if (term.is(TermKind::condition))
    return fmt::format("{} ? {} : {}", within(*term.arguments[0], 1), tensors(*term.arguments[1]), tensors(*term.arguments[2]));
  const std::string text = print(term).text;
  return term.is(TermKind::read) ? fmt::format("std::vector<Tensor>({0}.begin(), {0}.end())", text) : text;
}

Printed Printer::print(const Term& term) const {
  switch (term.kind) {
    case TermKind::literal:
      return literal(term);
    case TermKind::read:
      if (term.symbol.how == Symbol::How::element)
        return {place_.parts.at({{term.symbol.what, term.symbol.index}, term.symbol.how})};
      if (repeats(term)) return {"launch::written_out(" + operand(term) + ")"};
      if (is_nested(term)) return {place_.reads.at({term.symbol.what, term.symbol.index}) + ".values()"};
      return {place_.reads.at({term.symbol.what, term.symbol.index})};
    case TermKind::op:
      return term.operation == Operator::none || on_rows(term) ? call(term) : operation(term);
    case TermKind::helper:
      return {term.helper->home.prefix() + "shapes::" + term.helper->schema.name + "(" + join(all(term.arguments)) + ")"};
    case TermKind::zeros:
      return {"zeros_raw(" + join(all(term.arguments)) + ")"};
    case TermKind::operation:
      return operation(term);
    case TermKind::property:
      return property(term);
    case TermKind::conversion:
      return conversion(term);
    case TermKind::condition:
      if (term.type.is_list_of(Base::tensor)) return {tensors(term), 0};
      return {fmt::format("{} ? {} : {}", within(*term.arguments[0], 1), branch(*term.arguments[1], 1),
                          branch(*term.arguments[2], 0)),
              0};
    case TermKind::tuple:
      return {"std::tuple(" + join(all(term.arguments)) + ")"};
    case TermKind::list:
      return {"{" + join(all(term.arguments)) + "}"};
    case TermKind::record:
      return record(term);
    case TermKind::index:
      if (term.arguments.size() == 1 && term.arguments[0]->type.base == Base::record)
        return {within(*term.arguments[0], 7) + "." + term.arguments[0]->type.record->fields[term.position].name};
      if (one_gradient(term)) return {fmt::format("grads[{}]", term.arguments[1]->text)};
      if (term.arguments.size() == 1) return {fmt::format("std::get<{}>({})", term.position, print(*term.arguments[0]).text)};
      return {fmt::format("element({}, {})", print(*term.arguments[0]).text, print(*term.arguments[1]).text)};
    case TermKind::wants:
    case TermKind::has_tangent:
      return {place_.asked.at(term.symbol.index)};
  }
  return {};
}

/// Whether a call reads rows that repeat where they are: an op of several tensors, none of them a number here.
bool Printer::on_rows(const Term& term) const {
  bool any = false;
  for (size_t i = 0; i < term.arguments.size(); ++i) {
    if (!term.op->schema.arguments[i].type.is_tensor()) continue;
    if (!term.arguments[i]->type.is_tensor()) return false;
    any = any || repeats(*term.arguments[i]);
  }
  return any && term.op->takes_rows();
}

/// The field that a gradient is summed to, if these are the sizes of an operand.
std::string Printer::operand_sizes(const Term& sizes) const {
  const Symbol* const symbol = sizes.is(TermKind::read) ? &sizes.symbol : sizes_of(sizes);
  if (symbol == nullptr) return "";
  const auto field = place_.operand_sizes.find({symbol->what, symbol->index});
  return field == place_.operand_sizes.end() ? "" : field->second;
}

Printed Printer::call(const Term& term) const {
  const std::string& name = term.op->name();
  if (on_rows(term)) {
    std::vector<std::string> parts;
    for (const TermPtr& argument : term.arguments) parts.push_back(operand(*argument));
    return {term.op->home.prefix() + "detail::" + name + "(" + join(parts) + ")"};
  }
  const Home& home = term.op->home;
  const std::string where = term.op->derived                              ? home.prefix() + "detail::"
                            : home.plain && !place_.shadowing.count(name) ? ""
                                                                          : home.space + "::";
  if (is_sum_to(term)) {
    const std::string field = operand_sizes(*term.arguments[1]);
    if (!field.empty()) return {fmt::format("{}{}({}, {})", where, name, print(*term.arguments[0]).text, field)};
  }
  std::vector<std::string> texts = all(term.arguments);
  for (size_t i = 0; i < texts.size() && term.op->has_options(); ++i) {  // braces narrow nothing
    const Term& value = *term.arguments[i];
    if (value.is(TermKind::conversion) && value.type.is(Base::floating) && !value.arguments[0]->is(TermKind::literal))
      texts[i] = "static_cast<double>(" + texts[i] + ")";
    if (value.type.is(Base::string) && term.op->schema.arguments[i].type.is(Base::string) && i >= term.op->positional())
      texts[i] = "std::string(" + texts[i] + ")";  // fields own theirs
  }
  return {where + name + "(" + join(public_arguments(*term.op, texts)) + ")"};
}

Printed Printer::record(const Term& term) const {
  if (const TermPtr& first = term.arguments[0]; first->reads(Symbol::What::argument)) {
    const auto named = place_.records.find(first->symbol.index);
    bool all_of_it = named != place_.records.end();
    for (size_t i = 0; i < term.arguments.size(); ++i)
      all_of_it = all_of_it && term.arguments[i]->reads(Symbol::What::argument) &&
                  term.arguments[i]->symbol.index == first->symbol.index + i &&
                  term.arguments[i]->symbol.how == Symbol::How::whole;
    if (all_of_it) return {named->second};
  }
  return {term.type.record->cpp() + "{" + join(all(term.arguments)) + "}"};
}

std::string Printer::branch(const Term& term, int at_least) const {
  const std::string text = within(term, at_least);
  if (!term.reads(Symbol::What::argument) || term.type.list || term.type.optional) return text;
  return term.type.base == Base::integer    ? "int64_t{" + text + "}"
         : term.type.base == Base::floating ? "double{" + text + "}"
                                            : text;
}

Printed Printer::operation(const Term& term) const {
  const int strength = precedence_of(term.operation);
  const std::string symbol = spelling(term.operation);
  if (term.arguments.size() == 1) {
    const std::string operand = within(*term.arguments[0], 6);
    return {symbol + (operand[0] == symbol[0] ? "(" + operand + ")" : operand), strength};
  }
  const Term &a = *term.arguments[0], &b = *term.arguments[1];
  if (a.type.is_list_of(Base::integer)) {
    const auto as_ints = [&](const Term& value) {
      if (value.is(TermKind::property) && is_nested(*value.arguments[0])) return print(value).text;
      return value.is(TermKind::list) ? "IntSpan" + print(value).text : "IntSpan(" + print(value).text + ")";
    };
    const std::string same = as_ints(a) + " == " + as_ints(b);
    return term.operation == Operator::equal ? Printed{same, 3} : Printed{"!(" + same + ")", 6};
  }
  // GCC wants parentheses around && inside ||.
  const auto group = [&](const Term& value, int at_least) {
    const Printed printed = print(value);
    const bool both = term.operation == Operator::logical_or && printed.precedence == 2;
    return both || printed.precedence < at_least ? "(" + printed.text + ")" : printed.text;
  };
  const int right = strength <= 2 ? strength : strength + 1;
  return {group(a, strength) + " " + symbol + " " + group(b, right), strength};
}

Printed Printer::property(const Term& term) const {
  const Term& object = *term.arguments[0];
  const bool of_rows = repeats(object) && (term.property == Property::dtype || term.property == Property::device);
  const std::string dim = term.arguments.size() > 1 ? print(*term.arguments[1]).text : "";
  if (object.is(TermKind::read)) {
    const auto part = place_.parts.find({{object.symbol.what, object.symbol.index}, object.symbol.how});
    if (part != place_.parts.end() && object.symbol.how != Symbol::How::element) {
      const std::string& field = part->second;
      if (term.property == Property::size) return {fmt::format("{0}[wrap_dim({1}, {0})]", field, dim)};
      if (term.property == Property::dim) return {fmt::format("static_cast<int64_t>({}.size())", field)};
      if (term.property == Property::numel) return {fmt::format("numel_of({})", field)};
      return {field};
    }
  }
  if (is_nested(object)) {
    const std::string& value = place_.reads.at({object.symbol.what, object.symbol.index});
    if (term.property == Property::sizes) return {"nested::ShapeOf{" + value + "}"};
    return {fmt::format("{}.{}({})", value, spelling(term.property), dim)};
  }
  if (one_gradient(object) && term.property == Property::defined)
    return {fmt::format("grads.defined({})", object.arguments[1]->text)};
  const std::string value = of_rows ? operand(object) : within(object, 7);
  switch (term.property) {
    case Property::length:
      return {fmt::format("static_cast<int64_t>({}.size())", value)};
    case Property::components:
    case Property::rows:
      return {fmt::format("{}->{}()", value, spelling(term.property))};
    default:
      return {fmt::format("{}.{}({})", value, spelling(term.property), dim)};
  }
}

}  // namespace opgen::cpp
