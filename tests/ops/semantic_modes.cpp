#include "tests/ops/semantic_checks.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/shape.h"
#include "tests/ops/semantic_cells.h"
#include "tests/ops/semantic_support.h"
#include "tests/support/random.h"

namespace deckle::suite {
namespace {

Tensors in_float64(Tensors tensors) {
  for (Tensor& tensor : tensors) tensor = to(tensor, DType::float64);
  return tensors;
}

}  // namespace

void check_modes(const Case& op) {
  const Function f = function_of(op);
  const Tensors x = differentiable(op), like = f(x);
  if (like.empty()) return;
  const Tensors c = random_like(like), t = random_like(x), u = random_like(x);
  expect_consistent(derivatives_of(f, x, c, t, u), c, t, 1e-8, "");
  compared(op, Cell::modes);
}

void check_each_output(const Case& op) {
  const Function f = function_of(op);
  const Tensors x = differentiable(op), like = f(x);
  if (like.size() < 2) return;
  const Tensors c = random_like(like);
  const Tensors all = vjp(f, x, c).second;
  Tensors sum;
  for (size_t o = 0; o < like.size(); ++o) {
    const Tensors one = vjp(f, x, only(c, o)).second;
    for (size_t i = 0; i < one.size(); ++i) o == 0 ? sum.push_back(one[i]) : void(sum[i] = add(sum[i], one[i]));
  }
  expect_same(sum, all, 1e-9, "the gradients of each output, summed");
  compared(op, Cell::each_output);
}

void check_each_input(const Case& op) {
  const Function f = function_of(op);
  const Tensors x = differentiable(op), like = f(x);
  if (like.empty()) return;
  const Tensors c = random_like(like), t = random_like(x);
  const Tensors all = vjp(f, x, c).second, forward = jvp(f, x, t).second;
  Tensors sum;
  for (size_t i = 0; i < x.size(); ++i) {
    const Function alone = [&](const Tensors& one) {
      Tensors inputs = x;
      inputs[i] = one[0];
      return f(inputs);
    };
    expect_same(vjp(alone, Tensors{x[i]}, c).second[0], all[i], 1e-9, fmt::format("the gradient of input {} alone", i));
    const Tensors part = jvp(f, x, only(t, i)).second;
    for (size_t o = 0; o < part.size(); ++o) i == 0 ? sum.push_back(part[o]) : void(sum[o] = add(sum[o], part[o]));
  }
  expect_same(sum, forward, 1e-9, "the tangents along each input, summed");
  compared(op, Cell::each_input);
}

void check_aliased_inputs(const Case& op) {
  for_pairs(op, [&](size_t i, size_t j) {
    const auto place = [&op, i, j](const Tensor& a, const Tensor& b) {
      Tensors tensors = op.tensors;
      tensors[i] = a;
      tensors[j] = b;
      return floating_only(called(op, tensors));
    };
    Tensor x = positive(op.tensors[i]);
    try {
      place(x, x);
    } catch (const Error&) {
      x = clone(op.tensors[i]);  // as drawn: probabilities, for one
    }
    try {
      place(x, x);
    } catch (const Error& error) {
      refused_by_op(op, Cell::aliased_inputs, error.message());
      return;
    }
    expect_alike([&](const Tensors& v) { return place(v[0], v[0]); }, [&](const Tensors& v) { return place(v[0], clone(v[0])); },
                 {x}, fmt::format(" with one tensor as inputs {} and {}", i, j));
    compared(op, Cell::aliased_inputs);
  });
}

void check_mixed_dtypes(const Case& op) {
  struct Some {
    Tensors forward, reverse, second;
  };
  const auto derived = [](const Function& f, const Tensors& x, const Tensors& c, const Tensors& t) {
    const Function gradient = [&](const Tensors& at) { return vjp(f, at, c).second; };
    return Some{jvp(f, x, t).second, gradient(x), jvp(gradient, x, t).second};
  };
  // The dtypes are those of the tensors, the values those of the same numbers in float64.
  const auto check_form = [&](const Function& f, const Tensors& x, const std::string& what) {
    const Tensors like = f(x), c = random_like(like), t = random_like(x);
    const Some got = derived(f, x, c, t), expected = derived(f, in_float64(x), in_float64(c), in_float64(t));
    const auto expect_those = [&](const Tensors& mixed, const Tensors& wide, const Tensors& alike, const std::string& which) {
      for (size_t i = 0; i < mixed.size(); ++i) {
        EXPECT_EQ(name(mixed[i].dtype()), name(alike[i].dtype())) << which << what;
        expect_values(mixed[i], wide[i], 1e-4, which + what);
      }
    };
    expect_those(got.forward, expected.forward, like, "a tangent");
    expect_those(got.reverse, expected.reverse, x, "a gradient");
    expect_those(got.second, expected.second, x, "the tangent of a gradient");
  };
  const Tensors inputs = differentiable(op);
  size_t floats = 0;
  for (const Tensor& tensor : op.tensors) floats += floating(tensor);
  if (floats < 2) return;
  for (size_t narrow = 0; narrow < inputs.size(); ++narrow) {
    Tensors x = inputs;
    x[narrow] = to(x[narrow], DType::float32);
    const std::string what = fmt::format(" with input {} in float32 and the others in float64", narrow);
    try {
      function_of(op)(x);
    } catch (const Error& error) {
      refused_by_op(op, Cell::mixed_dtypes, error.message());
      continue;
    }
    check_form(function_of(op), x, what);
    if (op.inplace && op.differentiable[0]) {
      const Function inplace = [&op](const Tensors& v) {
        Tensors tensors = with(op, v);
        tensors[0] = clone(tensors[0]);
        op.inplace(tensors);
        return Tensors{tensors[0]};
      };
      check_form(inplace, x, what + " in place");
    }
    compared(op, Cell::mixed_dtypes);
  }
}

}  // namespace deckle::suite
