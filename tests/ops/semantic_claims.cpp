#include "tests/ops/semantic_checks.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "deckle/autograd/history.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/shape.h"
#include "tests/ops/semantic_cells.h"
#include "tests/ops/semantic_support.h"
#include "tests/support/random.h"

namespace deckle::suite {

void check_identity(const Case& op) {
  struct Before {
    std::shared_ptr<Storage> storage;
    uint64_t version;
    std::string sizes;
  };
  Tensors inputs = op.tensors;
  for (Tensor& input : inputs) {
    if (op.writes && input.defined()) input = clone(input);
  }
  std::vector<Before> before;
  for (const Tensor& input : inputs)
    before.push_back(input.defined() ? Before{input.storage(), input.version(), to_string(input.sizes())} : Before{});
  const Tensors results = op.call(inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) continue;
    EXPECT_EQ(inputs[i].storage(), before[i].storage) << "input " << i << " has other memory after the call";
    EXPECT_EQ(to_string(inputs[i].sizes()), before[i].sizes) << "input " << i;
    if (!op.writes) {
      EXPECT_EQ(inputs[i].version(), before[i].version) << "input " << i << " was written";
    }
    EXPECT_FALSE(inputs[i].requires_grad()) << "input " << i << " got history";
  }
  if (op.writes && !results.empty()) {
    EXPECT_GT(inputs[0].version(), before[0].version);
  }
  compared(op, Cell::identity);
  if (op.writes) return;
  for (const Tensor& result : results) {
    if (!result.defined()) continue;
    bool shared = false, known = false;
    for (const Tensor& input : inputs) {
      if (!input.defined() || input.storage() != result.storage()) continue;
      shared = true;
      known = known || result.is_same(input) || autograd::base_of(result).is_same(autograd::base_of(input));
    }
    if (op.view) {
      EXPECT_TRUE(shared) << "a view has memory of its own";
    }
    if (shared && !exempt(op, Cell::aliasing)) {
      EXPECT_TRUE(known) << "a result lies in an input's memory and is neither that input nor marked as a view of it";
    }
  }
  compared(op, Cell::aliasing);
}

void check_constant_inputs(const Case& op) {
  for (size_t i = 0; i < op.tensors.size(); ++i) {
    if (op.differentiable[i] || !op.tensors[i].defined() || op.tensors[i].dtype() != DType::float64) continue;
    if (exempt(op, Cell::constant_inputs)) continue;
    const auto at = [&](double step) {
      Tensors tensors = op.tensors;
      const std::vector<double> values = tensors[i].to_vector();
      tensors[i] = of_values(tensors[i].sizes(), DType::float64, [&](size_t k) { return values[k] * (1 + step) + step; });
      return floating_only(called(op, tensors));
    };
    Tensors above, below;
    try {
      above = at(1e-6);
      below = at(-1e-6);
    } catch (const Error& error) {
      refused_by_op(op, Cell::constant_inputs, error.message());
      continue;
    }
    if (above.empty()) continue;  // integers, which have none
    expect_same(above, below, 1e-12,
                fmt::format("tensor {} has no derivative, says the entry, and the results change with it: they", i));
    compared(op, Cell::constant_inputs);
  }
}

void check_linear(const Case& op) {
  const Function f = function_of(op);
  const Tensors x = differentiable(op), y = random_like(x);
  Tensors sum, expected;
  for (size_t i = 0; i < x.size(); ++i) sum.push_back(x[i] * 2.0 - y[i] * 0.75);
  const Tensors at_x = f(x), at_y = f(y);
  for (size_t o = 0; o < at_x.size(); ++o) expected.push_back(at_x[o] * 2.0 - at_y[o] * 0.75);
  expect_same(f(sum), expected, 1e-11, "f(2 x - 0.75 y) and 2 f(x) - 0.75 f(y) of an op said to be linear");
  compared(op, Cell::linear);
}

void check_metadata(const Case& op, const std::vector<bool>& unread) {
  Tensors others = op.tensors;
  for (size_t i = 0; i < others.size(); ++i) {
    const Tensor& tensor = op.tensors[i];
    if (!unread[i]) continue;
    const std::vector<double> values = tensor.to_vector();
    others[i] = of_values(tensor.sizes(), tensor.dtype(), [&](size_t k) {
                  return is_floating(tensor.dtype()) ? std::nan("") : values[k] == 0;
                }).to(tensor.device());
  }
  const Tensors expected = op.call(op.tensors), got = op.call(others);
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(got[i].to_vector(), expected[i].to_vector())
        << "result " << i << " depends on values of which only sizes and dtype count";
}

Case of_results(const Case& op, const std::vector<size_t>& results) {
  Case some = op;
  some.call = [call = op.call, results](const Tensors& tensors) {
    const Tensors all = call(tensors);
    Tensors kept;
    for (const size_t result : results) kept.push_back(all[result]);
    return kept;
  };
  return some;
}

void check_element_wise(const Case& op) {
  const Function f = function_of(op);
  const Tensors x = differentiable(op);
  ASSERT_EQ(x.size(), 1U);
  const Tensor before = f(x)[0];
  ASSERT_EQ(to_string(before.sizes()), to_string(x[0].sizes())) << "an op said to be element-wise";
  const std::vector<double> expected = before.to_vector(), values = x[0].to_vector();
  for (size_t at = 0; at < values.size(); at += 1 + values.size() / 7) {
    const Tensor moved =
        of_values(x[0].sizes(), x[0].dtype(), [&](size_t i) { return i == at ? values[i] * 1.01 + 0.01 : values[i]; });
    const std::vector<double> after = f({moved})[0].to_vector();
    for (size_t i = 0; i < after.size(); ++i) {
      if (i == at || after[i] == expected[i] || std::isnan(expected[i])) continue;
      FAIL() << "element " << i << " of the result depends on element " << at << " of an input said to act element by element";
    }
  }
  compared(op, Cell::element_wise);
}

}  // namespace deckle::suite
