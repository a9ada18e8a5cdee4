#pragma once

#include <functional>

#include "deckle/core/tensor.h"

namespace deckle {

/// d f(x) / d x, of shape [f(x)'s dims..., x's dims...]: a pass of reverse mode for each element of f(x), or of forward mode for
/// each of x, whichever is less. Can be differentiated again by whatever f(x) depends on, as the results of grad() and vjp().
Tensor jacobian(const std::function<Tensor(const Tensor&)>& f, const Tensor& x);

/// The second derivatives of a function with one result of one element, [x's dims..., x's dims...]: forward over reverse mode, a
/// pass for each element of x.
Tensor hessian(const std::function<Tensor(const Tensor&)>& f, const Tensor& x);

}  // namespace deckle
