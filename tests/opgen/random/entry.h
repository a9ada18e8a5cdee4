#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "opgen/formula/expr.h"

namespace deckle::random_entries {

using opgen::ExprPtr;
using Sizes = std::vector<int64_t>;

/// An argument of a drawn entry, with what it is called with.
struct Argument {
  enum class Kind { tensor, optional_tensor, tensors, scalar, floating, integer, boolean, integers, mask };
  Kind kind = Kind::tensor;
  std::string name;
  std::vector<Sizes> sizes;       // of the tensors: one, none for an optional one that is not given, one for each of a list
  double number = 0;              // of a number or bool, and of a mask: a bool tensor that conditions alone read
  std::vector<int64_t> integers;  // of a list
  bool by_default = false;        // numbers: the call leaves it to the default, which is the number

  bool holds_tensors() const { return kind == Kind::tensor || kind == Kind::optional_tensor || kind == Kind::tensors; }
  bool is_number() const { return kind == Kind::scalar || kind == Kind::floating || kind == Kind::integer; }
};

using Lets = std::vector<std::pair<std::string, ExprPtr>>;

/// A drawn entry: what it computes as trees, from which everything else is written.
struct Entry {
  enum class Kind {
    automatic,  // pointwise, derivative: auto
    written,    // pointwise with formulas
    kernel,     // one or several results of a C++ loop, with formulas
    composite,  // of public ops and of earlier entries
  };
  Kind kind = Kind::automatic;
  std::string name;
  std::vector<Argument> arguments;
  std::vector<std::string> results;  // names; "result" where there is one
  Lets lets;
  std::vector<ExprPtr> bodies;  // one for each result
  uint64_t style = 0;           // seeds how the formulas are written
  bool inplace = false, out = false;

  bool pointwise() const { return kind == Kind::automatic || kind == Kind::written; }
  const Argument* find(const std::string& argument) const {
    for (const Argument& each : arguments) {
      if (each.name == argument) return &each;
    }
    return nullptr;
  }
};

using Entries = std::map<std::string, const Entry*>;

}  // namespace deckle::random_entries
