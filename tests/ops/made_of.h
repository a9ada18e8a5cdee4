#pragma once

#include <map>
#include <set>
#include <string>

#include "tests/ops/suite.h"

namespace deckle::suite {

/// Ops, and the recorded ops that a call of each stands for.
using Calls = std::map<std::string, std::set<std::string>>;

/// Holds a composite in C++ to the ops that its entry names, from which its derivatives follow.
class MadeOf {
 public:
  explicit MadeOf(Calls calls) : calls_(std::move(calls)) {}

  /// Calls the op on recorded inputs, and on inputs of two dtypes where it takes several, and collects what was recorded.
  void record(const Case& op);
  /// Adds what was recorded on the way to these results.
  void collect(const std::vector<Tensor>& results);
  /// Nothing else was recorded in any case, and of each call something.
  void check() const;

 private:
  Calls calls_;
  std::set<std::string> recorded_;
};

}  // namespace deckle::suite
