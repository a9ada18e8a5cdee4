#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "deckle/base/error.h"

namespace deckle {

/// What the operands of a function are called by the one that called it, for texts that speak of them: those with the same
/// tensor, or, if no two of these differ, with the same elements (of a view).
class OperandNames {
 public:
  OperandNames(const std::vector<Operand>& inside, const std::vector<Operand>& outside);

  /// Whether each operand that the texts name has a name outside.
  bool all_known(std::string_view argument, std::string_view detail) const;
  /// `text` with the names of outside, each where it stands as a word.
  std::string rename(std::string_view text) const;

 private:
  std::map<std::string, std::optional<std::string>, std::less<>> names_;
};

}  // namespace deckle
