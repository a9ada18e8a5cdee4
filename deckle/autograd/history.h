#pragma once

#include <initializer_list>
#include <limits>
#include <memory>

#include "deckle/autograd/grad_mode.h"
#include "deckle/autograd/meta.h"
#include "deckle/autograd/node.h"
#include "deckle/core/row_operand.h"
#include "deckle/core/tensor.h"

/// What generated wrappers call to record history: see ARCHITECTURE.md for a call followed through the files.
namespace deckle::autograd {

bool requires_grad(const Tensor& tensor);
bool requires_grad(TensorList tensors);
inline bool requires_grad(const RowOperand& operand) { return requires_grad(operand.values()); }

/// True when recording is on and some input requires a gradient. Inputs: Tensors, TensorLists and RowOperands.
template <typename... Inputs>
bool records(const Inputs&... inputs) {
  return grad_enabled() && (requires_grad(inputs) || ...);
}

/// The node that made `tensor` and which of its outputs it is; for a view whose base changed, made anew. Empty for leaves
/// and constants.
Edge origin(const Tensor& tensor);

/// Where the gradient of `tensor` goes: its node, a leaf's accumulator, or nowhere.
Edge gradient_edge(const Tensor& tensor);
/// The same, and nowhere for a leaf that no recorded op has used: nothing is made.
Edge recorded_edge(const Tensor& tensor);

/// Makes `result` the next output of `node`. Results of an integral dtype take a slot but get no history.
void attach(const Tensor& result, const std::shared_ptr<Node>& node);
void attach_all(TensorList results, const std::shared_ptr<Node>& node);
/// The same, where result i depends on element i of each of `inputs` alone: it has history if one of them does.
void attach_all(TensorList results, const std::shared_ptr<Node>& node, std::initializer_list<TensorList> inputs);
/// Whether element `i` of some list requires a gradient.
bool requires_grad_at(size_t i, std::initializer_list<TensorList> lists);

/// Records that `result` shows elements of `self`, in whose memory it lies; `multi_output`: as one of several results.
void mark_view(const Tensor& result, const Tensor& self, bool multi_output = false);

/// The tensor that a view is a view of; of any other tensor, the tensor itself. Tangents live there.
const Tensor& base_of(const Tensor& tensor);

/// Throws if recording is on and an in-place write to `self`, itself `recorded` or not, would lose a gradient: a leaf that
/// requires grad, a view of one, and where derivatives are concerned an output of a multi-output view, a view made under
/// NoGrad, or a view of overlapping elements.
void check_inplace(const Tensor& self, bool recorded);

/// After an in-place write: saved tensors of this storage become stale.
void bump_version(const Tensor& self);

/// Of a node that has no input slot for the tensor that its op writes.
inline constexpr size_t kNoSlot = std::numeric_limits<size_t>::max();

/// After an in-place write that `node` recorded: `self`, and the base if it is a view, now come from `node`, whose input
/// `self_slot` is the earlier value. Without a node, while recording, what was written is a constant: nothing of the written
/// part's gradient reaches its earlier history.
void rebase(const Tensor& self, const std::shared_ptr<Node>& node, size_t self_slot = 0);

/// Whether an in-place write to `self` would change one of `operands`, or make what was saved of it stale.
bool shares_memory(const Tensor& self, std::initializer_list<Tensor> operands);
/// An operand of a write to `self` as it is before: a copy where both lie in one storage.
Tensor apart_from(const Tensor& self, const Tensor& operand);

/// Throws if an argument of an out= variant requires grad or carries a tangent.
void check_out(std::span<const Tensor> tensors);
inline void check_out(std::initializer_list<Tensor> tensors) { check_out(std::span(tensors.begin(), tensors.size())); }

}  // namespace deckle::autograd
