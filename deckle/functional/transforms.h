#pragma once

#include <tuple>
#include <type_traits>
#include <utility>

#include "deckle/autograd/backward.h"
#include "deckle/autograd/forward_mode.h"
#include "deckle/functional/reverse_scope.h"
#include "deckle/functional/traits.h"

/// grad, vjp, jvp and hvp of functions on anything made of tensors (functional/traits.h). A function of several arguments
/// takes a std::tuple of them. They nest with each other, and with backward() around them: what they return can be
/// differentiated by whatever it was computed from and requires grad or carries a tangent, be it x, a cotangent or tangent, or a
/// tensor that the function captures. Then it keeps its graph; otherwise, and under NoGrad, it has no history.
namespace deckle {

/// (f(x), Jᵀ · cotangent): `cotangent` is shaped like f(x), the result like x. Inputs that f(x) does not depend on get zeros.
template <typename F, functional::TensorTreeLike X, functional::TensorTreeLike Y>
std::pair<Y, X> vjp(F&& f, const X& x, const Y& cotangent) {
  const functional::ReverseScope scope(functional::to_leaves(x));
  const Y y = functional::call(f, functional::from_leaves(x, scope.variables()));
  const std::vector<Tensor> cotangents = call_as("vjp", [&] { return functional::matching_leaves(y, cotangent, "cotangent"); });
  const std::vector<Tensor> outputs = functional::to_leaves(y), gradients = scope.gradients(outputs, cotangents);
  return {functional::from_leaves(y, scope.results(outputs)), functional::from_leaves(x, gradients)};
}

/// The gradient of a function with one result of one element, shaped like x.
template <typename F, functional::TensorTreeLike X>
requires(!std::is_convertible_v<F, TensorList>) X grad(F&& f, const X& x) {
  const functional::ReverseScope scope(functional::to_leaves(x));
  const Tensor y = functional::call(f, functional::from_leaves(x, scope.variables()));
  call_as("grad", [&] {
    check(y.defined() && y.numel() == 1, "the function returned {} (expected a tensor of one element)",
          y.defined() ? "a tensor of shape " + to_string(y.sizes()) : "an undefined tensor");
  });
  return functional::from_leaves(x, scope.gradients({y}, {}));
}

/// (f(x), J · tangent) by forward mode: one pass, nothing saved. `tangent` is shaped like x, the second result like f(x).
template <typename F, functional::TensorTreeLike X>
auto jvp(F&& f, const X& x, const X& tangent) {
  const autograd::LevelScope scope;
  std::vector<Tensor> duals = functional::to_leaves(x);
  const std::vector<Tensor> tangents = call_as("jvp", [&] { return functional::matching_leaves(x, tangent, "tangent"); });
  for (size_t i = 0; i < duals.size(); ++i) {
    if (tangents[i].defined() && is_floating(duals[i].dtype()))
      duals[i] = autograd::make_dual(duals[i], tangents[i], scope.level());
  }
  auto y = functional::call(f, functional::from_leaves(x, duals));
  std::vector<Tensor> result;
  for (const Tensor& leaf : functional::to_leaves(y)) result.push_back(autograd::tangent(leaf, scope.level()));
  auto y_tangent = functional::from_leaves(y, result);
  return std::pair(std::move(y), std::move(y_tangent));  // y's tangents end with the scope
}

/// (gradient, Hessian · v) of a function with one result of one element: forward mode over reverse mode.
template <typename F, functional::TensorTreeLike X>
std::pair<X, X> hvp(F&& f, const X& x, const X& v) {
  call_as("hvp", [&] { functional::matching_leaves(x, v, "tangent"); });
  const auto gradient = [&f]<typename... Points>(const Points&... points) {
    if constexpr (std::is_same_v<X, std::tuple<Points...>>) {
      return grad(f, X(points...));
    } else {
      return grad(f, points...);
    }
  };
  return jvp(gradient, x, v);
}

}  // namespace deckle
