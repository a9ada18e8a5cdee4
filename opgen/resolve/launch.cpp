#include "opgen/resolve/launch.h"

#include <fmt/format.h>

#include <algorithm>

#include "opgen/derive/algebra.h"
#include "opgen/derive/calculus.h"
#include "opgen/derive/limits.h"
#include "opgen/ir/build.h"
#include "opgen/resolve/convert.h"
#include "opgen/resolve/resolver.h"
#include "opgen/text/strings.h"

namespace opgen {
namespace {

/// Whether every literal is whole and every function has an int64 instance.
bool serves_integers(const ExprPtr& node, const Library& library) {
  if (node->is(ExprKind::number) && node->text.find_first_of(".e") != std::string::npos) return false;
  if (node->is(ExprKind::name) && (node->text == "inf" || node->text == "nan" || node->text == "pi")) return false;
  if (node->is(ExprKind::binary) && node->text == "/") return false;
  if (node->is(ExprKind::call) && node->text != "where") {
    const auto function = library.functions.find(node->text);
    if (function == library.functions.end() || !function->second.integer) return false;
  }
  return std::all_of(node->args.begin(), node->args.end(),
                     [&](const ExprPtr& argument) { return serves_integers(argument, library); });
}

/// Whether the expression calls a function that only integers have.
bool needs_integers(const ExprPtr& node, const Library& library) {
  if (node->is(ExprKind::call)) {
    const auto function = library.functions.find(node->text);
    if (function != library.functions.end() && function->second.bits) return true;
  }
  return std::any_of(node->args.begin(), node->args.end(),
                     [&](const ExprPtr& argument) { return needs_integers(argument, library); });
}

std::string name_of(Dtypes dtypes) { return dtypes == Dtypes::numeric ? "numeric" : dtypes == Dtypes::all ? "all" : "integral"; }

void resolve_pointwise(const Entry& entry, const Library& library, Op& op) {
  op.pointwise = entry.pointwise;
  op.computed = protect_limits(algebra::fold_numbers(entry.pointwise), library);
  op.condition = is_boolean(entry.pointwise, library.functions);
  if (entry.dtypes != Dtypes::floating && !serves_integers(op.computed, library))
    throw Problem(entry.body_at, fmt::format("'{}' has no int64 form, which 'dtypes: {}' wants: only whole numbers, + - *, "
                                             "comparisons, where and functions with 'integer: true' have one",
                                             to_string(entry.pointwise), name_of(entry.dtypes)));
  if (entry.dtypes != Dtypes::integral && needs_integers(op.computed, library))
    throw Problem(entry.body_at,
                  fmt::format("'{}' is of the bits of integers: say 'dtypes: integral'", to_string(entry.pointwise)));
}

std::vector<Wrap> wraps_of(const Entry& entry, Scope& scope) {
  const std::vector<Argument>& arguments = entry.schema.arguments;
  const auto first = std::find_if(arguments.begin(), arguments.end(), [](const Argument& a) { return a.type.is_tensor_like(); });
  std::vector<Wrap> wraps;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (const auto given = entry.wraps.find(arguments[i].name); given != entry.wraps.end()) {
      wraps.push_back({i, Resolver(scope).resolve_to(given->second, type_of(Base::integer), "the number of dims")});
      continue;
    }
    const bool names_dim = is_dim(arguments[i]) && arguments[i].name.starts_with("dim");
    if (entry.wrap_dims && names_dim && first != arguments.end() && !first->type.list) wraps.push_back({i, nullptr});
  }
  return wraps;
}

bool can_be_shown(const Type& type) {
  return type.is(Base::dtype) || type.is(Base::scalar) || type.is_number() || type.is_list_of(Base::integer) ||
         type.is(Base::boolean) || type.is(Base::string) || (type.is(Base::enumeration) && !type.optional);
}

/// "text with {expression}".
std::vector<Check::Piece> message_of(const Text& says, Scope& scope) {
  std::vector<Check::Piece> pieces;
  const std::string& text = says.value();
  for (size_t at = 0; at < text.size();) {
    if (text[at] != '{') {
      const size_t end = std::min(text.find('{', at), text.size());
      pieces.push_back({text.substr(at, end - at), nullptr});
      at = end;
      continue;
    }
    const size_t close = text.find('}', at);
    if (close == std::string::npos) throw Problem(says.at(at), "'{' in a message opens an expression, and '}' is missing");
    const Text inside(text.substr(at + 1, close - at - 1), says.at(at + 1));
    const TermPtr value = Resolver(scope).resolve(inline_lets(parse_formula(inside)));
    if (!can_be_shown(value->type))
      throw Problem(says.at(at + 1),
                    fmt::format("a message shows numbers, sizes, dtypes and texts, not {}", value->type.to_string()));
    pieces.push_back({"", value});
    at = close + 1;
  }
  return pieces;
}

Allocation allocation_of(const ExprPtr& rule, Scope& scope) {
  Resolver resolver(scope);
  const auto dtype = [&] { return resolver.resolve_to(rule->args[1], type_of(Base::dtype), "the dtype"); };
  if (rule->is_call("like") && (rule->args.size() == 1 || rule->args.size() == 2)) {
    const TermPtr like = resolver.resolve(rule->args[0]);
    if (!like->type.is_tensor()) throw Problem(rule->args[0]->at, "like(x) wants a tensor");
    if (rule->args.size() == 1) return {like, nullptr, nullptr, nullptr};
    const TermPtr second = resolver.resolve(rule->args[1]);
    if (second->type.is(Base::boolean)) return {like, nullptr, nullptr, second};
    return {like, nullptr, dtype(), nullptr};
  }
  if (rule->is_call("empty") && rule->args.size() == 2) {
    const TermPtr shape = resolver.resolve_to(rule->args[0], type_of(Base::integer, true), "the shape");
    return {nullptr, shape, dtype(), nullptr};
  }
  throw Problem(rule->at,
                fmt::format("an allocation rule is like(x), like(x, dtype), like(x, wanted) or empty(shape, dtype), not '{}'",
                            to_string(rule)));
}

}  // namespace

void resolve_launch(const Entry& entry, const Program& program, const Library& library, Op& op) {
  if (entry.body == Entry::Body::pointwise) resolve_pointwise(entry, library, op);
  if (entry.body == Entry::Body::native || entry.body == Entry::Body::composite_cpp) return;
  Scope scope = argument_scope(op, program);
  for (const WrittenCheck& check : entry.checks) {
    const TermPtr condition = Resolver(scope).resolve_to(check.condition, type_of(Base::boolean), "a check");
    op.checks.push_back({check.of, condition, message_of(check.says, scope), check.by_hand});
  }
  if (entry.body != Entry::Body::kernel) return;
  op.wraps = wraps_of(entry, scope);
  for (const ExprPtr& rule : entry.result_rules) op.allocations.push_back(allocation_of(rule, scope));
}

}  // namespace opgen
