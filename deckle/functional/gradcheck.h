#pragma once

#include <functional>
#include <vector>

#include "deckle/functional/traits.h"

/// Checks of derivatives against central differences, for functions of float64 inputs. Each throws an Error that names the
/// input, the output and both values at the first difference; a clean return is a pass.
namespace deckle {

struct GradcheckOptions {
  double step = 1e-6;      // of the central differences
  double absolute = 1e-5;  // allowed: absolute + relative * |numerical|
  double relative = 1e-3;
};

namespace functional {

using VectorFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

void gradcheck(const VectorFunction& f, const std::vector<Tensor>& inputs, const GradcheckOptions& options);
void forward_gradcheck(const VectorFunction& f, const std::vector<Tensor>& inputs, const GradcheckOptions& options);
/// f's backward as a function of the floating inputs and of random cotangents.
void gradgradcheck(const VectorFunction& f, const std::vector<Tensor>& inputs, const GradcheckOptions& options);
/// The same function in forward mode: forward over reverse.
void forward_gradgradcheck(const VectorFunction& f, const std::vector<Tensor>& inputs, const GradcheckOptions& options);

template <typename F, TensorTreeLike X>
VectorFunction on_vectors(F& f, const X& x) {
  return [&f, x](const std::vector<Tensor>& leaves) { return to_leaves(call(f, from_leaves(x, leaves))); };
}

}  // namespace functional

/// Reverse mode.
template <typename F, functional::TensorTreeLike X>
void gradcheck(F&& f, const X& x, const GradcheckOptions& options = {}) {
  functional::gradcheck(functional::on_vectors(f, x), functional::to_leaves(x), options);
}

/// Forward mode.
template <typename F, functional::TensorTreeLike X>
void forward_gradcheck(F&& f, const X& x, const GradcheckOptions& options = {}) {
  functional::forward_gradcheck(functional::on_vectors(f, x), functional::to_leaves(x), options);
}

/// Second order: reverse over reverse.
template <typename F, functional::TensorTreeLike X>
void gradgradcheck(F&& f, const X& x, const GradcheckOptions& options = {}) {
  functional::gradgradcheck(functional::on_vectors(f, x), functional::to_leaves(x), options);
}

/// Second order: forward over reverse.
template <typename F, functional::TensorTreeLike X>
void forward_gradgradcheck(F&& f, const X& x, const GradcheckOptions& options = {}) {
  functional::forward_gradgradcheck(functional::on_vectors(f, x), functional::to_leaves(x), options);
}

}  // namespace deckle
