#pragma once

#include <functional>
#include <string>
#include <vector>

#include "deckle/functional/transforms.h"
#include "tests/ops/semantic_suite.h"
#include "tests/ops/suite_support.h"

/// What the checks of semantic cells share: the op as a function of its differentiable inputs, and that function's derivatives in
/// all modes.
namespace deckle::suite {

using Function = std::function<Tensors(const Tensors&)>;

bool floating(const Tensor& tensor);
Tensors random_like(const Tensors& tensors);
Tensors ones_like_each(const Tensors& tensors);
/// Only the one at `index`, the others undefined.
Tensors only(const Tensors& tensors, size_t index);
/// Values at which everything is defined, in the same shape.
Tensor positive(const Tensor& tensor);

/// The tensors that derivatives are taken for.
Tensors differentiable(const Case& op);
/// All tensors of the case, with `inputs` for the differentiable ones.
Tensors with(const Case& op, const Tensors& inputs);
Tensors floating_only(Tensors results);
/// The op as a function of its differentiable inputs.
Function function_of(const Case& op);

/// Equal to `tolerance` where finite; the same infinities and NaN.
void expect_same(const Tensor& got, const Tensor& expected, double tolerance, const std::string& what);
void expect_same(const Tensors& got, const Tensors& expected, double tolerance, const std::string& what);

/// Everything that the modes say of f at x, along cotangents c and tangents t and u.
struct Derivatives {
  Tensors value, reverse, forward, reverse_reverse, forward_reverse, reverse_forward, forward_forward;
};
Derivatives derivatives_of(const Function& f, const Tensors& x, const Tensors& c, const Tensors& t, const Tensors& u);

/// The modes against each other; with infinities or NaN about, sums say no more than that there are some.
void expect_consistent(const Derivatives& d, const Tensors& c, const Tensors& t, double tolerance, const std::string& what);
/// f and g, which are the same function, have the same derivatives at x.
void expect_alike(const Function& f, const Function& g, const Tensors& x, const std::string& what);

/// Places j > i of inputs that could be the same tensor.
template <typename Check>
void for_pairs(const Case& op, const Check& check) {
  for (size_t i = 0; i < op.tensors.size(); ++i) {
    for (size_t j = i + 1; j < op.tensors.size(); ++j) {
      const bool alike = floating(op.tensors[i]) && floating(op.tensors[j]) && op.tensors[i].sizes() == op.tensors[j].sizes() &&
                         op.tensors[i].dtype() == op.tensors[j].dtype() && op.differentiable[i] && op.differentiable[j];
      if (alike) check(i, j);
    }
  }
}

}  // namespace deckle::suite
