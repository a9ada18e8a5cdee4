#include "tools/deckle/ops_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <set>
#include <string_view>
#include <vector>

#include "deckle/base/check.h"
#include "deckle/ops/op_table.h"

namespace deckle::cli {
namespace {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest_names(std::string_view name, const std::vector<std::string_view>& among) {
  std::vector<std::pair<size_t, std::string_view>> names;
  for (const std::string_view other : among) {
    const bool part = std::min(name.size(), other.size()) > 2 &&
                      (other.find(name) != std::string_view::npos || name.find(other) != std::string_view::npos);
    const size_t distance = edit_distance(name, other);
    if (part || distance <= std::max<size_t>(1, name.size() / 3)) names.emplace_back(distance, other);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(3, names.size()); ++i)
    text += fmt::format("{}'{}'", i == 0 ? "" : ", ", names[i].second);
  return text;
}

std::string list_ops() {
  std::string text;
  std::string_view file;
  size_t shown = 0, by_hand = 0;
  for (const OpInfo& op : op_table()) {
    if (op.name.find("_backward") != std::string_view::npos) continue;
    const std::string_view from = op.position.substr(0, op.position.find(':'));
    if (from != file) text += fmt::format("{}{}\n", file.empty() ? "" : "\n", from);
    file = from;
    text += fmt::format("  {:<100} :{}\n", op.schema, op.position.substr(from.size() + 1));
    ++(op.because.empty() ? shown : by_hand);
  }
  return text + fmt::format("\n{} ops, {} derivatives, and {} functions that are no ops\n", shown,
                            op_table().size() - shown - by_hand, by_hand);
}

std::string list_host_ops() {
  const std::string head = "| op | why |\n|---|---|\n";
  std::string table = head, alone = head;
  for (const OpInfo& op : op_table()) {
    if (!op.host.empty()) table += fmt::format("| `{}` | {} |\n", op.name, op.host);
    if (!op.cpu_only.empty()) alone += fmt::format("| `{}` | {} |\n", op.name, op.cpu_only);
  }
  return table + "\nKernels for CPUs alone, which a GPU never needs:\n\n" + alone;
}

std::string list_nested_ops() {
  std::string table = "| op | batch | ragged | regular |\n|---|---|---|---|\n", refused;
  std::set<std::string> seen;  // lines of overloads already printed
  for (const OpInfo& op : op_table()) {
    if (op.name.find("_backward") != std::string_view::npos || !op.because.empty()) continue;
    const auto& [batch, ragged, regular] = op.over;
    const bool takes_tensors = op.schema.substr(0, op.schema.find("->")).find("Tensor") != std::string_view::npos;
    if (batch.empty()) {
      const std::string_view reason = op.ragged.substr(std::min(op.ragged.size(), std::string_view("error: ").size()));
      const bool internal = reason.starts_with("a derivative of") || reason.starts_with("a part of") ||
                            op.name.starts_with("segment_") || op.name.starts_with("foreach_");
      const std::string row = fmt::format("| `{}` | {} |\n", op.name, reason);
      if (takes_tensors && !internal && seen.insert(row).second) refused += row;
      continue;
    }
    const std::string row = fmt::format("| `{}` | {} | {} | {} |\n", op.name, batch, ragged, regular);
    if (seen.insert(row).second) table += row;
  }
  return table + "\nRefused:\n\n| op | why |\n|---|---|\n" + refused;
}

std::string explain_op(const std::string& name) {
  std::string text;
  for (const OpInfo& op : op_table()) {
    const std::string_view overload = op.schema.substr(0, op.schema.find('('));  // add.Tensor
    const bool variant = std::ranges::any_of(op.variants | std::views::split(std::string_view(", ")), [&](const auto& word) {
      return std::string_view(word.begin(), word.end()) == name;
    });
    if (op.name != name && overload != name && !variant) continue;
    if (!op.because.empty()) {
      text += fmt::format("{}\n  {}\n  declared in   {}\n  derivatives   {}\n  no entry      {}\n", op.schema, op.doc, op.header,
                          op.derivatives, op.because);
      continue;
    }
    text += fmt::format("{}\n  {}\n  entry         {}\n", op.schema, op.doc, op.position);
    if (!op.variants.empty()) text += fmt::format("  variants      {}\n", op.variants);
    text += fmt::format("  kernels       {}\n  saves         {}\n  derivatives   {}\n  ragged        {}\n", op.kernels, op.saves,
                        op.derivatives, op.ragged);
    if (!op.host.empty()) text += fmt::format("  on the host   {}\n", op.host);
    if (!op.cpu_only.empty()) text += fmt::format("  CPU alone     {}\n", op.cpu_only);
    if (!op.autocast.empty()) text += fmt::format("  autocast      {}\n", op.autocast);
  }
  if (!text.empty()) return text;
  std::vector<std::string_view> names;
  for (const OpInfo& op : op_table()) names.push_back(op.name);
  const std::string near = nearest_names(name, names);
  fail("no op is named '{}' (expected {}one that `deckle ops` lists)", name, near.empty() ? "" : near + ", or ");
}

}  // namespace deckle::cli
