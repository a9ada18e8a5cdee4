#include "opgen/schema/schema.h"

#include <fmt/format.h>

#include <algorithm>

#include "opgen/text/strings.h"

namespace opgen {

std::string Type::to_string() const {
  static constexpr const char* kNames[] = {"Tensor", "int",  "float", "bool", "Scalar", "ScalarType", "str",  "Generator",
                                           "Ragged", "Plan", "",      "",     "",       "none",       "tuple"};
  if (base == Base::tuple) {
    std::vector<std::string> parts;
    for (const Type& element : elements) parts.push_back(element.to_string());
    return "(" + join(parts) + ")";
  }
  std::string result = base == Base::foreign       ? foreign_name
                       : base == Base::enumeration ? enumeration->name
                       : base == Base::record      ? record->name
                                                   : kNames[static_cast<int>(base)];
  if (optional_elements) result += "?";
  if (list) result += length > 0 ? fmt::format("[{}]", length) : "[]";
  if (optional) result += "?";
  return result;
}

bool EnumType::has(const std::string& value) const { return std::find(values.begin(), values.end(), value) != values.end(); }

const Position& Type::declared_at() const { return record ? record->at : enumeration->at; }

bool Type::external() const { return record ? record->external : enumeration->external; }

const Group* Schema::find_group(const std::string& record) const {
  const auto found = std::find_if(groups.begin(), groups.end(), [&](const Group& group) { return group.name == record; });
  return found == groups.end() ? nullptr : &*found;
}

namespace {

template <typename Slots>
std::vector<Parameter> whole(const Slots& slots, const std::vector<Group>& groups) {
  std::vector<Parameter> result;
  for (size_t i = 0; i < slots.size();) {
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& candidate) { return candidate.first == i; });
    if (group == groups.end())
      result.push_back({slots[i].name, slots[i].type, i, 1});
    else
      result.push_back({group->name, group->type, i, group->count()});
    i += result.back().count;
  }
  return result;
}

}  // namespace

std::vector<Parameter> Schema::parameters() const { return whole(arguments, groups); }

std::vector<Parameter> Schema::outcomes() const { return whole(results, result_groups); }

std::string Schema::result_name(size_t index) const {
  const std::string& name = results[index].name;
  if (!name.empty() && !find(name)) return name;
  return results.size() == 1 ? "result" : "result" + std::to_string(index);
}

const Argument* Schema::find(const std::string& argument) const {
  for (const Argument& candidate : arguments) {
    if (candidate.name == argument) return &candidate;
  }
  return nullptr;
}

namespace {

std::string alias_text(const std::optional<Alias>& alias) {
  if (!alias) return "";
  return fmt::format("({}{}{})", alias->before, alias->written ? "!" : "", alias->after.empty() ? "" : " -> " + alias->after);
}

std::string type_text(const Type& type, const std::optional<Alias>& alias) {
  std::string text = type.to_string();
  if (alias)
    text.insert(text.find_first_of("?[") == std::string::npos ? text.size() : text.find_first_of("?["), alias_text(alias));
  return text;
}

}  // namespace

std::string Schema::to_string() const {
  std::vector<std::string> parts;
  bool keyword_only = false;
  for (const Parameter& parameter : parameters()) {
    const Argument& argument = arguments[parameter.first];
    if (parameter.is_record()) {
      parts.push_back(parameter.type.to_string() + " " + parameter.name);
      continue;
    }
    if (argument.keyword_only && !keyword_only) parts.emplace_back("*");
    keyword_only = argument.keyword_only;
    parts.push_back(type_text(argument.type, argument.alias) + " " + argument.name +
                    (argument.default_value ? "=" + *argument.default_value : ""));
  }
  std::vector<std::string> outs;
  for (const Parameter& outcome : outcomes())
    outs.push_back(type_text(outcome.type, outcome.is_record() ? std::nullopt : results[outcome.first].alias) +
                   (outcome.name.empty() ? "" : " " + outcome.name));
  const std::string joined = outs.size() == 1 && results[0].name.empty() ? outs[0] : "(" + join(outs) + ")";
  return fmt::format("{}{}({}) -> {}", name, overload.empty() ? "" : "." + overload, join(parts), joined);
}

}  // namespace opgen
