#include "deckle/base/operand_names.h"

#include <algorithm>
#include <set>

namespace deckle {
namespace {

bool is_same(const TensorId& a, const TensorId& b) { return a.tensor == b.tensor; }
bool shares(const TensorId& a, const TensorId& b) { return a.storage != nullptr && a.storage == b.storage; }

using Matches = bool (*)(const TensorId&, const TensorId&);

/// The names under which `outside` has what `inside` is: operands, and elements of lists.
std::set<std::string> matches(const Operand& inside, const std::vector<Operand>& outside, Matches same) {
  std::set<std::string> names;
  for (const Operand& operand : outside) {
    if (inside.list) {
      if (operand.list &&
          std::equal(inside.tensors.begin(), inside.tensors.end(), operand.tensors.begin(), operand.tensors.end(), same))
        names.insert(operand.name);
      continue;
    }
    for (size_t i = 0; i < operand.tensors.size(); ++i) {
      if (!same(inside.tensors[0], operand.tensors[i])) continue;
      names.insert(operand.list ? operand.name + "[" + std::to_string(i) + "]" : operand.name);
    }
  }
  return names;
}

std::optional<std::string> name_outside(const Operand& inside, const std::vector<Operand>& outside) {
  for (const Matches same : {Matches(is_same), Matches(shares)}) {
    const std::set<std::string> names = matches(inside, outside, same);
    if (names.count(inside.name) > 0) return inside.name;
    if (names.size() == 1 || (!names.empty() && same == Matches(is_same))) return *names.begin();
  }
  return std::nullopt;
}

bool is_of_word(char c) { return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9') || c == '_'; }

/// Calls say(part, named) for each word of `text` and for what stands between two. An operand is named without an article:
/// "values is int64" speaks of one, "the values have no dims" of values.
template <typename Say>
void for_each_part(std::string_view text, Say say) {
  bool after_article = false, was_article = false;
  while (!text.empty()) {
    const bool word = is_of_word(text.front());
    const auto end = std::find_if(text.begin(), text.end(), [&](char c) { return is_of_word(c) != word; });
    const std::string_view part = text.substr(0, static_cast<size_t>(end - text.begin()));
    say(part, word && !after_article);
    after_article = !word && was_article;
    was_article = part == "the";
    text.remove_prefix(part.size());
  }
}

}  // namespace

OperandNames::OperandNames(const std::vector<Operand>& inside, const std::vector<Operand>& outside) {
  // What runs on the values of nested tensors makes its operands from them, under the names of its own.
  const bool nested = std::any_of(outside.begin(), outside.end(), [](const Operand& operand) { return !operand.values.empty(); });
  for (const Operand& operand : inside) {
    if (operand.tensors.empty()) continue;
    std::optional<std::string> name = name_outside(operand, outside);
    if (!name.has_value() && nested) name = operand.name;
    names_[operand.name] = std::move(name);
  }
}

bool OperandNames::all_known(std::string_view argument, std::string_view detail) const {
  bool known = true;
  for (const std::string_view text : {argument, detail}) {
    for_each_part(text, [&](std::string_view part, bool named) {
      const auto found = named ? names_.find(part) : names_.end();
      known = known && (found == names_.end() || found->second.has_value());
    });
  }
  return known;
}

std::string OperandNames::rename(std::string_view text) const {
  std::string result;
  for_each_part(text, [&](std::string_view part, bool named) {
    const auto found = named ? names_.find(part) : names_.end();
    result += found == names_.end() ? part : std::string_view(*found->second);
  });
  return result;
}

}  // namespace deckle
