#include "opgen/resolve/distinct_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "opgen/schema/identifiers.h"
#include "opgen/text/strings.h"

namespace opgen {
namespace {

/// The C++ type, as far as overloads are told apart by it.
std::string overload_key(Type type) {
  type.length = 0;
  type.optional = type.optional && !type.is_tensor() && type.base != Base::generator && type.base != Base::record;
  return type.to_string() + ", ";
}

/// The C++ types of the arguments of the function `name`.
std::string overload_key(const Entry& entry, const std::string& name) {
  std::string key = name + "(";
  for (const Parameter& argument : entry.schema.parameters()) key += overload_key(argument.type);
  return key;
}

/// The types that a call with the first arguments gives, for each number of them with which the function can be called.
std::vector<std::string> calls_of(const Entry& entry) {
  std::vector<std::string> calls;
  std::string key;
  const std::vector<Parameter> parameters = entry.schema.parameters();
  size_t required = parameters.size();
  for (; required > 0; --required) {
    const Argument& argument = entry.schema.arguments[parameters[required - 1].first];
    if (parameters[required - 1].is_record() ||
        (!argument.default_value && !(argument.type.is_tensor() && argument.type.optional)))
      break;
  }
  for (size_t i = 0; i <= parameters.size(); ++i) {
    if (i >= required) calls.push_back(key);
    if (i == parameters.size() || parameters[i].first >= entry.positional()) break;
    key += overload_key(parameters[i].type);
  }
  return calls;
}

/// Overloads that C++ could not tell apart in a call that leaves out what has a default.
void check_calls(const Library& library, Problems& problems) {
  std::map<std::string, std::vector<const Entry*>> overloads;
  for (const auto& entry : library.entries) {
    std::vector<const Entry*>& others = overloads[entry->home.space + "::" + entry->name()];
    const std::vector<std::string> calls = calls_of(*entry);
    for (const Entry* const other : others) {
      if (entry->external || overload_key(*entry, "") == overload_key(*other, "")) continue;
      const std::vector<std::string> theirs = calls_of(*other);
      const bool same = std::any_of(calls.begin(), calls.end(), [&](const std::string& call) {
        return std::find(theirs.begin(), theirs.end(), call) != theirs.end();
      });
      if (!same) continue;
      refuse(
          problems, entry->at,
          fmt::format("'{}' and '{}' at {} are one call in C++ where arguments are left out: give one of them another name, or "
                      "fewer defaults",
                      entry->unique_name(), other->unique_name(), other->at.to_string()));
      break;
    }
    others.push_back(entry.get());
  }
}

/// Types of entry files, and of the library, that generated code would have twice.
void check_types(const Library& library, Problems& problems) {
  for (const auto& entry : library.entries) {
    const std::string options = pascal_case(entry->unique_name()) + "Options";
    if (entry->has_options() && !entry->external && is_class_of_library(options))
      refuse(problems, entry->at,
             fmt::format("the arguments after the '*' would be the struct '{}', which is a class of the library: leave out the "
                         "'*', or rename the op",
                         options));
    for (const std::string& name : {pascal_case(entry->unique_name()) + "Backward", options}) {
      const auto type = library.types.find(name);
      if (type == library.types.end() || (entry->external && type->second.external())) continue;
      if (name == options && !entry->has_options()) continue;
      refuse(problems, type->second.declared_at(),
             fmt::format("'{}' is what the generated code has for the op '{}' at {}: choose another name", name,
                         entry->unique_name(), entry->at.to_string()));
    }
  }
  for (const auto& record : library.records) {
    const auto type = library.types.find(record->name + "View");
    if (type == library.types.end() || (record->external && type->second.external())) continue;
    refuse(problems, type->second.declared_at(),
           fmt::format("'{0}View' is what kernels get for the record '{0}' at {1}: choose another name", record->name,
                       record->at.to_string()));
  }
}

/// Ops that would be one function, or share the name of a class, in the generated code.
void check_ops(const Library& library, Problems& problems) {
  std::map<std::string, const Entry*> functions, classes;
  for (const auto& entry : library.entries) {
    const Entry* const same_function = functions.emplace(overload_key(*entry, entry->name()), entry.get()).first->second;
    const Entry* const same_class = classes.emplace(pascal_case(entry->unique_name()), entry.get()).first->second;
    const Entry* const other = same_function != entry.get() ? same_function : same_class;
    if (other == entry.get() || entry->external) continue;
    const std::string first = fmt::format("'{}' at {}", other->unique_name(), other->at.to_string());
    refuse(problems, entry->at,
           other == same_function
               ? fmt::format("'{}' takes the same arguments in C++ as {}: give one of them another name", entry->unique_name(),
                             first)
               : fmt::format("'{}' and {} would have one name in the generated code: rename one", entry->unique_name(), first));
  }
}

/// Ops that would be the variant of another one, `exp_` or `exp_out`.
void check_variants(const Library& library, Problems& problems) {
  std::map<std::string, const Entry*> variants;
  for (const auto& entry : library.entries) {
    const auto add = [&](const std::string& name) { variants.emplace(entry->home.space + "::" + name, entry.get()); };
    if (entry->inplace) add(overload_key(*entry, entry->name() + "_"));
    if (entry->inplace || entry->out) {  // the first is made of the second
      const std::string key = overload_key(*entry, entry->name() + "_out");
      const size_t behind = key.find('(') + 1;
      add(key.substr(0, behind) + "Tensor, " + key.substr(behind));
    }
  }
  for (const auto& entry : library.entries) {
    if (entry->inplace && entry->name().ends_with('_') && !entry->external)
      refuse(problems, entry->at,
             fmt::format("'{0}' has the name of an in-place variant, and its own would be '{0}' too: leave the '_' out",
                         entry->name()));
    const auto other = variants.find(entry->home.space + "::" + overload_key(*entry, entry->name()));
    if (other == variants.end() || (entry->external && other->second->external)) continue;
    refuse(problems, entry->at,
           fmt::format("'{}' takes the same arguments in C++ as the variant of that name of '{}' at {}: give it another name",
                       entry->unique_name(), other->second->unique_name(), other->second->at.to_string()));
  }
}

}  // namespace

void check_distinct_names(const Library& library, Problems& problems) {
  check_ops(library, problems);
  check_calls(library, problems);
  check_variants(library, problems);
  check_types(library, problems);
}

}  // namespace opgen
