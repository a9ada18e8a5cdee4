#pragma once

#include <string>
#include <vector>

#include "tests/opgen/random/entry.h"

/// Trees and their derivatives, for the formulas that an entry is written with.
namespace deckle::random_entries {

ExprPtr name(const std::string& text);
ExprPtr number(double value);
ExprPtr unary(const std::string& symbol, ExprPtr operand);
ExprPtr binary(const std::string& symbol, ExprPtr left, ExprPtr right);
ExprPtr call(const std::string& function, std::vector<ExprPtr> args);
ExprPtr index(const std::string& list, size_t position);
ExprPtr conditional(ExprPtr condition, ExprPtr yes, ExprPtr no);

/// The tree with every `let` in its place.
ExprPtr inlined(const Entry& entry, const ExprPtr& body);

/// d tree / d leaf as another tree, nullptr for 0. `leaf` is a name or an element of a list; `some_tensor` makes a tensor of a
/// number where an op wants one. Written without a look at opgen/derive.
ExprPtr slope(const ExprPtr& tree, const ExprPtr& leaf, const ExprPtr& some_tensor);

/// The tree with `leaf` replaced.
ExprPtr replace(const ExprPtr& tree, const ExprPtr& leaf, const ExprPtr& by);

/// All trees with one inner node replaced by a leaf or by one of its own parts.
std::vector<ExprPtr> smaller(const ExprPtr& tree, const std::vector<ExprPtr>& leaves);

bool holds(const ExprPtr& tree, const ExprPtr& leaf);

}  // namespace deckle::random_entries
