#pragma once

#include <string>

#include "deckle/nested/nested_tensor.h"

/// What the suite of nested tensors has compared. When it ends, every cell of the table op × kind of dim must have been: an op
/// that neither a sample nor a test by hand reaches fails the suite.
namespace deckle::suite {

enum Over { batch, ragged, regular };

/// The kind of dim `dim` of a nested tensor (or of a place for a new dim).
inline Over kind_of(int64_t dim, int64_t ragged_dims) { return dim == 0 ? batch : dim <= ragged_dims ? ragged : regular; }

/// `op` agreed with what it means, over dims of that kind.
void covered(const std::string& op, Over over);

/// A function on nested tensors that has no entry agreed with what it means.
void covered_function(const std::string& name);

}  // namespace deckle::suite
