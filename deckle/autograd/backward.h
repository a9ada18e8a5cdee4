#pragma once

#include <span>
#include <vector>

#include "deckle/autograd/node.h"
#include "deckle/core/tensor.h"

namespace deckle {

namespace autograd {

/// Options of grad() and backward().
struct GradOptions {
  std::vector<Tensor> grad_outputs;  // one per output; may be empty for outputs of one element: ones
  bool retain_graph = false;         // implied by create_graph
  bool create_graph = false;
  bool allow_unused = false;  // an input that no output depends on gives an undefined tensor instead of an Error
};

/// Removes a hook; may be dropped.
class HookHandle {
 public:
  explicit HookHandle(const std::shared_ptr<GradientHook>& function) : function_(function) {}

  /// The hook is not called any more; it may itself ask for that. Does nothing the second time, or once the graph is gone.
  /// Not while a backward pass through the tensor runs on another thread.
  void remove();

 private:
  std::weak_ptr<GradientHook> function_;
};

}  // namespace autograd
using autograd::GradOptions;
using autograd::HookHandle;

/// d sum_i <grad_outputs_i, outputs_i> / d inputs, one tensor per input; nothing is accumulated in leaves. An input that the
/// outputs were computed from has a gradient, if only zeros (that of floor); one that they were not is `unused`.
std::vector<Tensor> grad(TensorList outputs, TensorList inputs, const GradOptions& options = {});

/// Adds the gradients of `outputs` to the grad() of every leaf.
void backward(TensorList outputs, const GradOptions& options = {});

/// Calls `hook` on the gradient of `tensor` whenever it is computed; what it returns, if defined, takes the gradient's place
/// and must have its shape and dtype. A later in-place write leaves the hook with the value it was registered for.
HookHandle register_hook(const Tensor& tensor, autograd::GradientHook hook);

/// Makes backward() add the gradient of a result, which is not a leaf, to its grad(), as all hooks leave it. Follows in-place
/// writes: the gradient is that of the value the tensor has in the end.
void retain_grad(const Tensor& tensor);

}  // namespace deckle
