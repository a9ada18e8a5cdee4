#include "opgen/resolve/entry_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "opgen/derive/calculus.h"
#include "opgen/resolve/distinct_names.h"
#include "opgen/resolve/kernel_rules.h"
#include "opgen/resolve/schema_rules.h"
#include "opgen/text/strings.h"

namespace opgen {
namespace {

void check_derivative(const Entry& entry, const Library& library) {
  if (entry.is_composite()) {
    if (entry.derivative_given)
      throw Problem(entry.derivative_at, "a composite is differentiated through the ops that it calls: leave 'derivative' out");
    return;
  }
  if (entry.non_differentiable || entry.derivative_auto || entry.limit.order > 0) return;
  std::vector<std::string> missing;
  for (const Argument* argument : entry.tensors()) {
    if (!entry.reverse_rule(argument->name)) missing.push_back(argument->label());
  }
  if (missing.empty()) return;
  if (!entry.derivative_given) {
    if (entry.body == Entry::Body::pointwise && is_boolean(entry.pointwise, library.functions)) return;  // conditions have none
    throw Problem(entry.at, fmt::format("'{}' has tensor inputs and no 'derivative:': write formulas, {}non_differentiable",
                                        entry.name(), entry.body == Entry::Body::pointwise ? "auto, or " : "or "));
  }
  throw Problem(entry.derivative_at, fmt::format("'{}' has no formula for {}: write one, or '{}: non_differentiable'",
                                                 entry.name(), "'" + join(missing, "', '") + "'", missing[0]));
}

/// `derivative: {order: 2, of: attention}`: of an op, or of those whose names begin so.
void check_limit(const Entry& entry, const Library& library) {
  const std::string& of = entry.limit.of;
  if (entry.limit.order == 0 || entry.external) return;
  if (of == entry.name())
    throw Problem(entry.limit.at, fmt::format("'{}' cannot end where its own derivatives end: name the op that it calls, or say "
                                              "'derivative: non_differentiable'",
                                              of));
  const std::vector<std::string> names = library.op_names();
  const bool known = std::any_of(names.begin(), names.end(),
                                 [&](const std::string& name) { return name == of || name.rfind(of + "_", 0) == 0; });
  if (!known)
    throw Problem(entry.limit.at, fmt::format("derivatives end at an order of an op, or of several whose names begin alike, and "
                                              "there is no '{}'{}",
                                              of, did_you_mean(of, names)));
}

void check_variants(const Entry& entry) {
  if (!entry.inplace && !entry.out) return;
  if (entry.body != Entry::Body::pointwise && entry.body != Entry::Body::kernel)
    throw Problem(entry.at, fmt::format("'{}': variants are made for pointwise and kernel ops", entry.name()));
  if (!entry.schema.groups.empty())
    throw Problem(entry.schema.groups[0].at, fmt::format("'{}': variants write into tensors, and the op takes the record '{}'",
                                                         entry.name(), entry.schema.groups[0].name));
  if (entry.schema.results.size() != 1) throw Problem(entry.at, fmt::format("'{}': variants need one result", entry.name()));
  if (entry.inplace && entry.nested.kind == NestedRule::Kind::cpp)
    throw Problem(entry.nested.at,
                  fmt::format("'{0}_' of nested tensors would have no body, as that of '{0}' is written by hand: "
                              "leave 'inplace' out, or give a rule from which it is made",
                              entry.name()));
  if (entry.inplace &&
      (entry.schema.arguments.empty() || entry.schema.arguments[0].name != "self" || !entry.schema.arguments[0].type.is_tensor()))
    throw Problem(entry.at,
                  fmt::format("'{}': an in-place variant writes into 'Tensor self', which must come first", entry.name()));
}

constexpr int kMostOperands = 12;

void check_pointwise_arguments(const Entry& entry) {
  if (entry.body != Entry::Body::pointwise) return;
  if (!entry.schema.groups.empty())
    throw Problem(entry.schema.groups[0].at,
                  fmt::format("a pointwise op takes Tensor, Scalar, int, float and bool arguments, not {}",
                              entry.schema.groups[0].type.to_string()));
  int tensors = 0;
  for (const Argument& argument : entry.schema.arguments) {
    const bool tensor = argument.type.is_tensor() && !argument.type.optional;
    const bool number = argument.type.is_number() || argument.type.is(Base::boolean);
    tensors += tensor;
    if (!tensor && (!number || argument.type.optional))
      throw Problem(argument.at, fmt::format("a pointwise op takes Tensor, Scalar, int, float and bool arguments, not {}",
                                             argument.type.to_string()));
  }
  if (tensors == 0) throw Problem(entry.at, "a pointwise op needs a tensor argument");
  if (tensors > kMostOperands && entry.derivative_auto)
    throw Problem(entry.at,
                  fmt::format("'derivative: auto' is for {} tensors at most, as each pair of them has a second derivative: "
                              "make the op of several",
                              kMostOperands));
  if (entry.schema.results.size() != 1 || !entry.schema.results[0].type.is_tensor())
    throw Problem(entry.at, "a pointwise op has one result, a Tensor");
}

void check_samples(const Entry& entry, const Library& library) {
  if (entry.external || entry.schema.results.empty()) return;  // list ops that only write have tests by hand
  if (!entry.samples.given()) {
    if (!entry.test_gradients) return;
    throw Problem(entry.at, fmt::format("'{}' has no samples: name a set of functions.yaml or list argument maps", entry.name()));
  }
  if (entry.samples.is_scalar() && !library.sample_sets.count(entry.samples.scalar())) {
    std::vector<std::string> sets;
    for (const auto& [name, ignored] : library.sample_sets) sets.push_back(name);
    throw Problem(entry.samples.at(), fmt::format("no sample set is named '{}'{}", entry.samples.scalar(),
                                                  did_you_mean(entry.samples.scalar(), sets)));
  }
}

/// A segment op gets what it has in common with the op: values, a Ragged, and arguments of the same names and types.
void check_segment(const Entry& entry, const Entry& segment) {
  const NestedRule& rule = entry.nested;
  const std::vector<Argument>& arguments = segment.schema.arguments;
  const auto is_values = [](const std::vector<Argument>& all, const Argument& argument) {
    return &argument == &*std::find_if(all.begin(), all.end(), [](const Argument& one) { return one.type.is_tensor(); });
  };
  bool left_out = false;
  for (const Argument& argument : arguments) {
    if (argument.type.is(Base::ragged) || is_values(arguments, argument)) continue;
    if (argument.keyword_only)
      throw Problem(rule.at, fmt::format("'{}' has the option '{}', and a segment op has none: its arguments stand before a '*'",
                                         rule.segment, argument.name));
    const Argument* const own = entry.schema.find(argument.name);
    const bool given = own != nullptr && !is_dim(*own) && own->type == argument.type;
    if (!given && (own != nullptr || !argument.default_value))
      throw Problem(rule.at, fmt::format("'{}' takes '{} {}', which '{}' does not give it: both have it under one name and type",
                                         rule.segment, argument.type.to_string(), argument.name, entry.name()));
    if (given && left_out)
      throw Problem(rule.at, fmt::format("'{}' takes '{}' behind an argument that '{}' does not have: let it stand in front",
                                         rule.segment, argument.name, entry.name()));
    left_out = left_out || !given;
  }
  for (const Argument& own : entry.schema.arguments) {
    if (is_dim(own) || own.name == "keepdim" || is_values(entry.schema.arguments, own)) continue;
    if (segment.schema.find(own.name) == nullptr)
      throw Problem(rule.at,
                    fmt::format("'{0}' has no argument '{1}', so that '{1}' would be without effect over ragged dims: give "
                                "it one, or write the overload by hand, 'cpp'",
                                rule.segment, own.name));
  }
}

void check_nested(const Entry& entry, const Library& library) {
  const NestedRule& rule = entry.nested;
  if (!rule.segment.empty() && !library.has(rule.segment))
    throw Problem(rule.at, fmt::format("no op is named '{}'{}", rule.segment, did_you_mean(rule.segment, library.op_names())));
  const std::vector<Argument>& own = entry.schema.arguments;
  const bool takes_dims = std::any_of(own.begin(), own.end(), is_dim);
  if (rule.kind == NestedRule::Kind::values && takes_dims && !entry.derived)
    throw Problem(rule.at, fmt::format("'values' does not say what '{}' does over the batch and the ragged dims: give 'segment', "
                                       "or 'cpp' with a rule for each kind of dim",
                                       entry.name()));
  const bool overloads = rule.kind != NestedRule::Kind::error && rule.kind != NestedRule::Kind::absent;
  if (overloads && !entry.schema.result_groups.empty())
    throw Problem(rule.at, fmt::format("the result '{}' is a record, which holds no nested tensors: say {{error: reason}}",
                                       entry.schema.result_groups[0].name));
  const std::vector<const Argument*> tensors = entry.tensors();
  if (overloads && rule.on.empty() && rule.choices.empty() && !tensors.empty() && !tensors[0]->path.empty())
    throw Problem(rule.at,
                  fmt::format("'{}' is a field of a record, which holds no nested tensors: name another argument with 'on'",
                              tensors[0]->path));
  for (const DimRule& over : rule.over) {
    if (over.refused && !takes_dims)
      throw Problem(rule.at, fmt::format("'{}' takes no dim that it could refuse: say what it does", entry.name()));
    if (over.refused && over.text.size() < 8)
      throw Problem(rule.at, "'error' wants the reason why a dim of this kind has no meaning here");
  }
  if (!rule.segment.empty()) {
    const std::vector<Argument>& arguments = library.overloads_of(rule.segment)[0]->schema.arguments;
    const bool serves =
        arguments.size() > 1 && arguments[0].type.is_tensor() &&
        std::any_of(arguments.begin(), arguments.end(), [](const Argument& argument) { return argument.type.is(Base::ragged); });
    if (!serves)
      throw Problem(rule.at,
                    fmt::format("'{}' cannot serve the ragged dim: a segment op takes values, a Tensor, first, and a Ragged",
                                rule.segment));
    for (const Argument& argument : own) {
      if (argument.keyword_only && is_dim(argument) && overloads)
        throw Problem(argument.at, fmt::format("'{}' says which dims the overload for nested tensors works on: it stands before "
                                               "the '*'",
                                               argument.name));
    }
    if (overloads) check_segment(entry, *library.overloads_of(rule.segment)[0]);
  }
  if (rule.kind == NestedRule::Kind::error && rule.error.size() < 8)
    throw Problem(rule.at, "'error' wants the reason why a nested tensor has no meaning here");
}

void check_autocast(const Entry& entry) {
  const AutocastRule& rule = entry.autocast;
  if (rule.to == AutocastRule::To::nothing) return;
  if (rule.of.empty()) throw Problem(rule.at, fmt::format("'{}' takes no tensor that could be converted", entry.name()));
  if (entry.dtypes == Dtypes::integral) throw Problem(rule.at, fmt::format("'{}' takes integers alone", entry.name()));
  if (entry.is_view() || entry.writes_argument())
    throw Problem(rule.at, fmt::format("'{}' {} an argument: of a converted one it would be another's memory", entry.name(),
                                       entry.is_view() ? "gives views of" : "writes"));
  for (const std::string& name : rule.of) {
    const Argument& argument = *entry.schema.find(name);
    if (!argument.path.empty())
      throw Problem(rule.at, fmt::format("'{}' is a field of a record, which stays as it is: convert where the record is made",
                                         argument.path));
  }
}

void check_documentation(const Entry& entry) {
  if (entry.doc.empty() && !entry.external)
    throw Problem(entry.at, fmt::format("'{}' has no 'doc:': one sentence that says what it computes", entry.name()));
}

}  // namespace

void check_entries(const Library& library, const std::string& root, Problems& problems) {
  for (const auto& entry : library.entries) {
    const std::vector<std::function<void()>> rules = {
        [&] { check_names(*entry); },
        [&] { check_aliases(*entry); },
        [&] { check_defaults(*entry); },
        [&] { check_options(*entry); },
        [&] { check_documentation(*entry); },
        [&] { check_pointwise_arguments(*entry); },
        [&] { check_derivative(*entry, library); },
        [&] { check_limit(*entry, library); },
        [&] { check_autocast(*entry); },
        [&] {
          check_variants(*entry);
          check_method(*entry);
        },
        [&] { check_kernels(*entry, root); },
        [&] { check_samples(*entry, library); },
        [&] { check_nested(*entry, library); },
    };
    for (const auto& rule : rules) attempt(problems, rule);
  }
  check_distinct_names(library, problems);
}

void check_library(const Library& library, const std::string& root, Problems& problems) {
  for (const auto& entry : library.entries) {
    if (entry->external || entry->tensors().empty() || entry->nested.kind != NestedRule::Kind::absent ||
        entry->body == Entry::Body::pointwise)
      continue;
    refuse(
        problems, entry->at,
        fmt::format("'{}' does not say what it does to nested tensors: add 'nested:', with values, a segment op, or the reason "
                    "why not",
                    entry->name()));
  }
  check_orphans(library, root, problems);
}

}  // namespace opgen
