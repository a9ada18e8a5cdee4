#pragma once

#include <unordered_map>
#include <utility>
#include <vector>

#include "opgen/ir/term.h"

/// What finding common sub-expressions asks of a term.
namespace opgen {

/// Gives terms numbers, parts smaller ones than what they are parts of.
class TermNumbers {
 public:
  /// The number of a term over arguments of these numbers, and whether it is new: equal ones have the same.
  std::pair<size_t, bool> of(const TermPtr& term, const std::vector<size_t>& arguments);

 private:
  std::vector<std::pair<TermPtr, std::vector<size_t>>> terms_;
  std::unordered_multimap<size_t, size_t> by_hash_;
};
/// How many of its arguments, from the first on, are evaluated whenever it is: of a condition, && and || only the first.
size_t always_evaluated(const Term& term);
/// Whether it is a call whose result may stand for that of an equal one: none that draws numbers, writes or copies.
bool may_be_shared(const Term& term);

}  // namespace opgen
