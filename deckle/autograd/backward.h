#pragma once

#include <span>
#include <vector>

#include "deckle/autograd/node.h"
#include "deckle/core/tensor.h"

namespace deckle {

namespace autograd {

/// Options of grad(). retain_graph defaults to create_graph.
struct GradOptions {
  std::vector<Tensor> grad_outputs;  // one per output; may be empty for outputs of one element: ones
  bool retain_graph = false;
  bool create_graph = false;
  bool allow_unused = false;  // an input that no output depends on gives an undefined tensor instead of an Error
};

}  // namespace autograd
using autograd::GradOptions;

/// d sum_i <grad_outputs_i, outputs_i> / d inputs, one tensor per input; nothing is accumulated in leaves.
std::vector<Tensor> grad(TensorList outputs, TensorList inputs, const GradOptions& options = {});

/// Adds the gradients of `outputs` to the grad() of every leaf.
void backward(TensorList outputs, const GradOptions& options = {});

/// Calls `hook` on the gradient of `tensor` whenever it is computed; what it returns, if defined, takes the gradient's place.
void register_hook(const Tensor& tensor, autograd::GradientHook hook);

/// Keeps the gradient of a result that is not a leaf in its grad().
void retain_grad(const Tensor& tensor);

}  // namespace deckle
