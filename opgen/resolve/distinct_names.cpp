#include "opgen/resolve/distinct_names.h"

#include <fmt/format.h>

#include <map>

#include "opgen/schema/identifiers.h"
#include "opgen/text/strings.h"

namespace opgen {
namespace {

/// The C++ types of the arguments of the function `name`, as far as overloads are told apart by them.
std::string overload_key(const Entry& entry, const std::string& name) {
  std::string key = name + "(";
  for (const Parameter& argument : entry.schema.parameters()) {
    Type type = argument.type;
    type.length = 0;
    type.optional = type.optional && !type.is_tensor() && type.base != Base::generator && type.base != Base::record;
    key += type.to_string() + ", ";
  }
  return key;
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
  check_variants(library, problems);
  check_types(library, problems);
}

}  // namespace opgen
