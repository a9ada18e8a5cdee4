#pragma once

#include <functional>
#include <string>
#include <vector>

#include "deckle/core/tensor.h"

namespace deckle {

/// A differentiable function with derivatives of your own:
///   using Tensors = Function::Tensors;
///   const Function cube{
///       .name = "cube",
///       .forward = [](const Tensors& x) { return Tensors{x[0] * x[0] * x[0]}; },
///       .backward = [](const Tensors& x, const Tensors& y, const Tensors& dy) { return Tensors{3 * x[0] * x[0] * dy[0]}; },
///       .tangent = [](const Tensors& x, const Tensors& y, const Tensors& dx) { return Tensors{3 * x[0] * x[0] * dx[0]}; }};
///   Tensor y = cube({x})[0];
/// Derivatives of second order are those of the rules, which are written with the library's functions; gradcheck and its like
/// (functional/gradcheck.h) hold the rules to differences.
struct Function {
  using Tensors = std::vector<Tensor>;

  std::string name = "function";  // for messages
  /// Results from inputs; nothing of it is recorded.
  std::function<Tensors(const Tensors& inputs)> forward;
  /// The gradient of each input, undefined where there is none, from those of all results.
  std::function<Tensors(const Tensors& inputs, const Tensors& results, const Tensors& gradients)> backward;
  /// The tangent of each result, undefined for zeros, from those of all inputs. Forward mode without it is an Error.
  std::function<Tensors(const Tensors& inputs, const Tensors& results, const Tensors& tangents)> tangent = {};

  Tensors operator()(const Tensors& inputs) const;
};

}  // namespace deckle
