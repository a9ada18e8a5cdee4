#include "deckle/nn/visitor.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>

#include "deckle/base/check.h"
#include "deckle/nn/module.h"

namespace deckle::nn {
namespace detail {
namespace {

std::string readable(const std::type_info& type) {
  int status = 0;
  char* const text = abi::__cxa_demangle(type.name(), nullptr, nullptr, &status);
  std::string name = status == 0 ? text : type.name();
  std::free(text);
  return name;
}

}  // namespace

std::vector<std::string> split_names(std::string_view names) {
  std::vector<std::string> result;
  while (!names.empty()) {
    const size_t comma = std::min(names.find(','), names.size());
    std::string_view name = names.substr(0, comma);
    while (!name.empty() && name.front() == ' ') name.remove_prefix(1);
    while (!name.empty() && (name.back() == ' ' || name.back() == '_')) name.remove_suffix(1);
    result.emplace_back(name);
    names.remove_prefix(std::min(comma + 1, names.size()));
  }
  return result;
}

void check_all_listed(const std::type_info& type, const Place& object, std::string_view names, std::vector<Place> places) {
  check(names != "?", "{} has no DECKLE_MEMBERS of its own (expected one that lists the members it inherits too)",
        readable(type));
  const auto* const begin = static_cast<const char*>(object.address);
  const char* end = begin + sizeof(Module);
  std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) { return std::less<>()(a.address, b.address); });
  // Padding below a pointer's size holds no tensor. What is larger may be of alignment, or a member: nobody can tell.
  const auto refuse_gap = [&](const char* next, size_t alignment) {
    if (next - end < static_cast<std::ptrdiff_t>(std::min(alignment, sizeof(void*)))) return;
    check(false, "{} has {} bytes, {} from its start, of a member that is not in its DECKLE_MEMBERS({}) (expected all members{})",
          readable(type), next - end, end - begin, names,
          object.alignment > sizeof(void*) ? ", those aligned to more than 8 bytes by std::unique_ptr" : "");
  };
  for (const Place& place : places) {
    const auto* const next = static_cast<const char*>(place.address);
    refuse_gap(next, place.alignment);
    end = std::max(end, next + place.size);
  }
  refuse_gap(begin + object.size, object.alignment);
}

}  // namespace detail

void StateVisitor::enter(Module& module) {
  if (actions_.module) actions_.module(module);
  module.visit(*this);
}

void StateVisitor::child(const std::string& name, Module& module) {
  const std::string before = prefix_;
  prefix_ += name + ".";
  enter(module);
  prefix_ = before;
}

}  // namespace deckle::nn
