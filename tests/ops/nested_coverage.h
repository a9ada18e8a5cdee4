#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "deckle/nested/nested_tensor.h"

/// What the suite of nested tensors has compared. When it ends, every cell of the table op × kind of dim must have been: an op
/// that neither a sample nor a test by hand reaches fails the suite.
namespace deckle::suite {

enum Over { batch, ragged, regular };

/// The kind of dim `dim` of a nested tensor (or of a place for a new dim).
inline Over kind_of(int64_t dim, int64_t ragged_dims) { return dim == 0 ? batch : dim <= ragged_dims ? ragged : regular; }

/// `op` agreed with what it means, over dims of that kind.
void covered(const std::string& op, Over over);

/// The checks that the entry of an op has, whose overload for nested tensors is written by hand. Each must have been refused
/// there, or said to be another for nested tensors.
struct ChecksOf {
  ChecksOf(const std::string& op, const std::vector<std::string>& checks);
};

/// The call of `op` breaks check number `check` of its entry, and the overload for nested tensors refuses it with this message.
void refuses(const std::string& op, size_t check, const std::string& message, const std::function<void()>& call);
/// The overload takes what that check refuses of dense operands: what nested tensors alone can have.
void takes(const std::string& op, size_t check, const std::function<void()>& call);

/// A sample of an op that converts its operands in the scope of an Autocast, held to that or not: one of each op must be.
void converts(const std::string& op, bool held);

/// A function on nested tensors that has no entry agreed with what it means.
void covered_function(const std::string& name);

}  // namespace deckle::suite
