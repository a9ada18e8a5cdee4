#include "opgen/readers/aten/family.h"

#include <algorithm>
#include <string_view>

namespace opgen::aten {
namespace {

constexpr std::string_view kForeach = "_foreach_";

std::string base_name(const Function& function) {
  std::string name = function.schema.name;
  if (function.kind == Function::Kind::in_place && name.back() == '_') name.pop_back();
  if (function.kind == Function::Kind::in_place && name.rfind("__i", 0) == 0) name = "__" + name.substr(3);
  return name;
}

bool is_out_argument(const Function& function, const Argument& argument) {
  return function.kind == Function::Kind::out && argument.alias && argument.alias->written;
}

/// What variants of one operation have in common: their name and what they read.
std::string signature(const Function& function) {
  std::string text = base_name(function);
  for (const Argument& argument : function.schema.arguments) {
    if (is_out_argument(function, argument)) continue;
    text += ',';
    text += argument.type.to_string();
    text += ' ';
    text += argument.name;
  }
  return text;
}

std::vector<const Function*>& place(Family& family, Function::Kind kind) {
  switch (kind) {
    case Function::Kind::functional:
      return family.functional;
    case Function::Kind::in_place:
      return family.in_place;
    case Function::Kind::out:
      return family.out;
    case Function::Kind::mutable_args:
      return family.mutable_args;
  }
  return family.functional;
}

/// Whether `list`, a foreach function, does for each element what `element` does.
bool is_elementwise_of(const Function& list, const Function& element) {
  const std::vector<Argument>&arguments = list.schema.arguments, &singles = element.schema.arguments;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (i >= singles.size()) return false;
    Type type = arguments[i].type;
    if (type.list && !singles[i].type.list) {
      type.list = false;
      type.length = 0;
    }
    if (type != singles[i].type) return false;
    if (i == 0 && !arguments[0].type.is_list_of(Base::tensor) && !type.is_tensor()) return false;
  }
  return std::all_of(singles.begin() + static_cast<std::ptrdiff_t>(arguments.size()), singles.end(),
                     [](const Argument& argument) { return argument.default_value.has_value(); });
}

const Function* element_of(const Function& list, const Functions& functions) {
  const std::string name = base_name(list).substr(kForeach.size());
  const auto candidates = functions.by_name.find(name);
  if (candidates == functions.by_name.end()) return nullptr;
  for (const Function* candidate : candidates->second) {
    if (candidate->kind == Function::Kind::functional && is_elementwise_of(list, *candidate)) return candidate;
  }
  return nullptr;
}

}  // namespace

bool is_foreach(const Function& function) {
  const std::string& name = function.schema.name;
  return name.size() > kForeach.size() && name.rfind(kForeach, 0) == 0;  // "_foreach_" alone names no operation
}

std::vector<const Function*> Family::all() const {
  std::vector<const Function*> members;
  for (const auto* part : {&functional, &in_place, &out, &mutable_args})
    members.insert(members.end(), part->begin(), part->end());
  return members;
}

Families join_families(const Functions& functions) {
  Families families;
  std::unordered_map<std::string, size_t> by_signature;
  std::vector<const Function*> all;
  for (const auto* part : {&functions.all, &functions.generated}) {
    for (const auto& function : *part) all.push_back(function.get());
  }
  for (const Function* function : all) {
    const auto [found, added] = by_signature.emplace(signature(*function), families.all.size());
    if (added) families.all.emplace_back();
    Family& family = families.all[found->second];
    families.of[function] = found->second;
    place(family, function->kind).push_back(function);
    for (const std::string& name : function->autogen) {
      if (!functions.find(name)) family.generated.push_back(name);
    }
  }
  for (const auto& function : functions.all) {
    if (!is_foreach(*function) || function->kind == Function::Kind::out) continue;
    const Function* element = element_of(*function, functions);
    if (!element) continue;
    families.reference[function.get()] = element;
    families.all[families.of.at(element)].foreach.push_back(function.get());
  }
  return families;
}

std::unordered_map<const Function*, Served> served_by(const Families& families, const Functions& functions,
                                                      const Records& records) {
  std::unordered_map<const Function*, Served> served;
  for (const Record& record : records.all) served[record.function] = {&record, Served::How::own};
  for (const auto& function : functions.all) {
    if (function->kind != Function::Kind::in_place && function->kind != Function::Kind::mutable_args) continue;
    if (served.count(function.get())) continue;
    for (const Function* functional : families.family(*function).functional) {
      const auto found = served.find(functional);
      if (found != served.end() && found->second.how == Served::How::own)
        served[function.get()] = {found->second.record, Served::How::functional};
    }
  }
  for (const auto& [list, element] : families.reference) {
    const auto found = served.find(element);
    if (!served.count(list) && found != served.end() && found->second.how == Served::How::own)
      served[list] = {found->second.record, Served::How::element};
  }
  return served;
}

}  // namespace opgen::aten
