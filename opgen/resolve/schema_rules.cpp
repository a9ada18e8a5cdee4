#include "opgen/resolve/schema_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>

#include "opgen/resolve/convert.h"
#include "opgen/schema/dtypes.h"
#include "opgen/schema/identifiers.h"
#include "opgen/text/strings.h"

namespace opgen {
namespace {

/// Words of formulas and of the functions that are generated around a name, beside the members of nodes.
const std::set<std::string> kReserved = {
    "result", "result_tangent", "node",      "level",    "out",          "original",  "wants",
    "has_t",  "error",          "device",    "none",     "inf",          "nan",       "pi",
    "check",  "fail",           "to_string", "numel_of", "wrap_dim",     "zeros_raw", "tangents",
    "view",   "call_check",     "there",     "int64_t",  "rethrow_from", "converted", "outside"};
/// Functions of the generated kernels.
const std::set<std::string> kKernelFunctions = {"d", "damped", "less_equal", "greater_equal"};

/// What generated code appends to the name of an argument or a result for something that belongs to it.
constexpr const char* kSuffixes[] = {"_p", "_t", "_sizes", "_dtype", "_device", "_defined", "_count", "_wrapped"};

bool is_word_of_formulas(const std::string& name) {
  // Results of other ops (out of attention_forward, say) are fair names where nothing else is meant.
  return node_members().count(name) || (kReserved.count(name) && name != "result" && name != "out");
}

/// The name of this op before a suffix of generated code; "" if there is none.
std::string belongs_to(const std::string& name, const Entry& entry) {
  std::vector<std::string> names = entry.argument_names();
  for (size_t i = 0; i < entry.schema.results.size(); ++i) names.push_back(entry.result_name(i));
  for (const std::string& other : names) {
    for (const char* suffix : kSuffixes) {
      if (name == other + suffix) return other;
    }
  }
  return "";
}

void check_name(const std::string& name, const Position& at, const Entry& entry) {
  if (const std::string why = why_not_a_name(name); !why.empty()) throw Problem(at, why);
  if (is_word_of_formulas(name))
    throw Problem(at, fmt::format("'{}' means something else in formulas or in the generated code: give it another name", name));
  if (const std::string other = belongs_to(name, entry); !other.empty())
    throw Problem(at, fmt::format("'{}' would be something of '{}' in the generated code: give it another name", name, other));
}

/// `grad_out` and `grad1` are the gradients of results.
void check_no_gradient(const std::string& name, const Position& at, const Entry& entry) {
  const std::vector<Result>& results = entry.schema.results;
  for (size_t i = 0; i < results.size(); ++i) {
    if ((!results[i].name.empty() && name == "grad_" + results[i].name) ||
        (results.size() > 1 && name == fmt::format("grad{}", i)))
      throw Problem(at, fmt::format("'{}' is the gradient of the result '{}' in formulas: give it another name", name,
                                    entry.result_name(i)));
  }
}

void check_lets(const Formula& formula, const Entry& entry) {
  for (const auto& [name, value] : formula.lets) {
    check_name(name, value->at, entry);
    check_no_gradient(name, value->at, entry);
  }
}

bool calls(const ExprPtr& expr, const std::string& function) {
  return expr->is_call(function) ||
         std::any_of(expr->args.begin(), expr->args.end(), [&](const ExprPtr& argument) { return calls(argument, function); });
}

/// Kernels name their parameters as the arguments, beside the scalar functions.
void check_kernel_name(const Argument& argument, const Entry& entry) {
  const std::string& name = argument.name;
  if (kKernelFunctions.count(name) || (name[0] == 't' && whole_number(name.substr(1))))
    throw Problem(argument.at, fmt::format("'{}' is a name of the generated kernel: give the argument another name", name));
  if (calls(entry.pointwise, name))
    throw Problem(argument.at,
                  fmt::format("'{}' is also a function that the expression calls: give the argument another name", name));
}

void check_type(const Type& type, const Position& at) {
  if (type.base == Base::foreign) throw Problem(at, fmt::format("the type {} has no counterpart here", type.to_string()));
  if (type.is_list_of(Base::string))
    throw Problem(at, "lists of texts do not exist: give a text for each, or an int that counts");
  if (type.list && type.base == Base::enumeration)
    throw Problem(at, fmt::format("lists of {} do not exist: give each value an argument of its own", type.enumeration->name));
  if (type.list && type.optional_elements && type.base != Base::tensor)
    throw Problem(at, fmt::format("'{}' is no type here: a list has all its elements", type.to_string()));
  if (type.list && type.optional && type.base != Base::integer)
    throw Problem(at, fmt::format("'{}' is no type here: an empty list says that there is nothing", type.to_string()));
}

std::string annotate(const Argument& argument) {
  return fmt::format("{}({}{}) {}", argument.type.to_string(), argument.alias->before, argument.alias->written ? "!" : "",
                     argument.name);
}

bool is_boolean_text(const std::string& text) { return text == "True" || text == "False"; }

bool is_number_text(const std::string& text) {
  char* end = nullptr;
  return !text.empty() && !is_octal(text) && std::isfinite(std::strtod(text.c_str(), &end)) && *end == '\0';
}

bool fits(const std::string& text, Base base) {
  switch (base) {
    case Base::integer:
      return whole_number(text).has_value();
    case Base::floating:
      return is_number_text(text);
    case Base::scalar:
      return is_number_text(text) || is_boolean_text(text);
    case Base::boolean:
      return is_boolean_text(text);
    case Base::dtype:
      return !dtype_cpp(text).empty();
    case Base::string:
      return text.size() >= 2 && (text[0] == '\'' || text[0] == '"') && text.find(text[0], 1) == text.size() - 1;
    default:
      return false;
  }
}

/// Numbers, `[1, 2]`; for lists of integers also one for all.
bool fits_list(const std::string& text, Base base) {
  if (text.front() != '[' || text.back() != ']') return base == Base::integer && fits(text, base);
  if (base == Base::scalar) base = Base::floating;
  if (base != Base::integer && base != Base::floating) return text == "[]";
  const std::string inside = text.substr(1, text.size() - 2);
  for (size_t at = 0; at < inside.size();) {
    const size_t comma = std::min(inside.find(',', at), inside.size());
    const size_t first = inside.find_first_not_of(' ', at);
    if (first >= comma || !fits(inside.substr(first, inside.find_last_not_of(' ', comma - 1) + 1 - first), base)) return false;
    at = comma + 1;
  }
  return true;
}

/// Defaults that a type takes.
std::string example_of(const Type& type) {
  if (type.list) return type.base == Base::integer ? "[0, 1] or 3" : "a list in brackets";
  switch (type.base) {
    case Base::integer:
      return "a whole number, as 3";
    case Base::floating:
    case Base::scalar:
      return "a number, as 0.5";
    case Base::boolean:
      return "True or False";
    case Base::string:
      return "a text in quotes, without quotes in it";
    case Base::dtype:
      return "a dtype, as float32";
    default:
      return "no default";
  }
}

}  // namespace

void check_names(const Entry& entry) {
  if (const std::string why = why_not_an_op(entry.name()); !why.empty()) throw Problem(entry.at, why);
  if (const std::string why = why_too_long(entry.unique_name()); !why.empty()) throw Problem(entry.at, why);
  for (const Group& group : entry.schema.groups) check_name(group.name, group.at, entry);
  for (const Group& group : entry.schema.result_groups) check_name(group.name, group.at, entry);
  for (const Argument& argument : entry.schema.arguments) {
    check_name(argument.name, argument.at, entry);
    check_no_gradient(argument.name, argument.at, entry);
    if (entry.out && argument.name == "out")
      throw Problem(argument.at, "'out' is where the variant writes: give the argument another name, or no variant 'out'");
    if (entry.body == Entry::Body::pointwise) check_kernel_name(argument, entry);
    check_type(argument.type, argument.at);
  }
  for (size_t i = 0; i < entry.schema.results.size(); ++i) {
    const std::string name = entry.result_name(i);
    check_name(name, entry.at, entry);
    if (entry.schema.find(name) && !entry.writes_argument())
      throw Problem(entry.at, fmt::format("'{}' is both an argument and a result", name));
    check_type(entry.schema.results[i].type, entry.at);
  }
  if (entry.body == Entry::Body::composite) check_lets(entry.composite, entry);
  for (const auto& [device, formula] : entry.composite_on) check_lets(formula, entry);
  for (const auto* rules : {&entry.reverse, &entry.forward}) {
    for (const WrittenRule& rule : *rules) check_lets(rule.formula, entry);
  }
}

void check_aliases(const Entry& entry) {
  std::vector<const Argument*> written, viewed;
  for (const Argument& argument : entry.schema.arguments) {
    if (!argument.alias) continue;
    if (!argument.type.is_tensor_like())
      throw Problem(argument.at, fmt::format("'{}': only tensors share memory", annotate(argument)));
    (argument.alias->written ? written : viewed).push_back(&argument);
  }
  const std::vector<Result>& results = entry.schema.results;
  const bool shares = std::any_of(results.begin(), results.end(), [](const Result& result) { return result.alias.has_value(); });
  if (written.empty() && viewed.empty() && !shares) return;
  if (entry.body != Entry::Body::native && entry.body != Entry::Body::composite_cpp)
    throw Problem(entry.at, fmt::format("'{}': only native ops and composites in C++ share memory with their arguments; in-place "
                                        "variants are 'variants: [inplace]'",
                                        entry.name()));
  for (const Result& result : results) {
    if (!result.alias) continue;
    const auto same = [&](const Argument& argument) {
      return argument.alias && argument.alias->before == result.alias->before && argument.alias->written == result.alias->written;
    };
    if (std::none_of(entry.schema.arguments.begin(), entry.schema.arguments.end(), same))
      throw Problem(entry.at, fmt::format("'{}' has a result in the alias set ({}{}), and no argument in it", entry.name(),
                                          result.alias->before, result.alias->written ? "!" : ""));
  }
  if (!viewed.empty() && (viewed.size() > 1 || !written.empty() || results.size() != 1 || !shares))
    throw Problem(viewed[0]->at,
                  fmt::format("'{}' says that the one result is a view of it: write '-> {}({})', or leave the annotation out",
                              annotate(*viewed[0]), results.size() == 1 ? results[0].type.to_string() : "Tensor",
                              viewed[0]->alias->before));
  if (written.empty()) return;
  const bool list = written[0]->type.list;
  const bool returns_it = results.size() == 1 && results[0].alias && written.size() == 1 &&
                          written[0] == &entry.schema.arguments[0] && written[0]->name == "self";
  if (list ? !results.empty() : !returns_it)
    throw Problem(written[0]->at,
                  list ? fmt::format("'{}': an op that writes lists returns nothing, '-> ()'", annotate(*written[0]))
                       : fmt::format("'{}': an op writes its first argument, 'Tensor(a!) self', and returns it, '-> Tensor(a!)'",
                                     annotate(*written[0])));
  if (entry.body == Entry::Body::native && !entry.non_differentiable && !entry.schema.groups.empty())
    throw Problem(entry.schema.groups[0].at,
                  fmt::format("'{}' writes 'self' and has derivatives: give the fields of '{}' one by one", entry.name(),
                              entry.schema.groups[0].name));
}

void check_options(const Entry& entry) {
  for (const Argument& argument : entry.schema.arguments) {
    if (entry.has_options() && argument.name == "options")
      throw Problem(argument.at, "'options' is the name that the arguments after the '*' have together: give it another name");
    if (!argument.keyword_only) continue;
    const Type& type = argument.type;
    if (type.list || type.is_tensor() || type.is(Base::ragged) || type.is(Base::plan))
      throw Problem(argument.at,
                    fmt::format("an argument after the '*' is a number, a bool, a text, a dtype, an enum or a Generator: "
                                "{} '{}' stands before it",
                                type.to_string(), argument.name));
    if (!argument.default_value)
      throw Problem(argument.at, fmt::format("an argument after the '*' has a default: '{0}' stands before it, or is '{0}=VALUE'",
                                             argument.name));
  }
}

void check_defaults(const Entry& entry) {
  for (const Argument& argument : entry.schema.arguments) {
    if (!argument.default_value) continue;
    const std::string& text = *argument.default_value;
    const Type& type = argument.type;
    if (type.is(Base::enumeration) && text != "None") {
      enum_value(*type.enumeration, text, argument.at);
      continue;
    }
    const bool good = text == "None" ? type.optional || type.base == Base::generator
                      : type.list    ? fits_list(text, type.base)
                                     : fits(text, type.base);
    if (!good)
      throw Problem(argument.at, fmt::format("the default {} of '{}' is no {} (expected {}{})", text, argument.name,
                                             type.to_string(), example_of(type), type.optional ? ", or None" : ""));
  }
}

void check_method(const Entry& entry) {
  if (!entry.method) return;
  const std::vector<Argument>& arguments = entry.schema.arguments;
  if (arguments.empty() || arguments[0].name != "self" || !arguments[0].type.is_tensor() || arguments[0].type.optional)
    throw Problem(entry.at, fmt::format("'{}': a method is called on 'Tensor self', which must come first", entry.name()));
}

}  // namespace opgen
