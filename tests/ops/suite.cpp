#include "tests/ops/suite.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "deckle/core/tensor_impl.h"
#include "deckle/ops/generated/shape.h"
#include "tests/ops/accuracy.h"
#include "tests/ops/semantic_suite.h"
#include "tests/ops/suite_support.h"
#include "tests/ops/tolerances.h"

namespace deckle::suite {
namespace {

Tensor copy_of(const Tensor& tensor) { return converted(tensor, tensor.dtype()); }

/// The same values with dims in column-major order and a gap after every element.
Tensor strided(const Tensor& tensor) {
  if (tensor.numel() == 0) return tensor;
  const Tensor memory = of_values({2 * tensor.numel() + 1}, tensor.dtype(), [](size_t) { return 77; });
  Dims strides;
  int64_t stride = 2;
  for (const int64_t size : tensor.sizes()) {
    strides.push_back(stride);
    stride *= size;
  }
  const Tensor result = alias(memory, tensor.sizes(), strides, 1);
  native::copy_(result, tensor);
  return result;
}

/// A pointwise op against its expression in plain C++, one element after the other.
void check_reference(const Case& op, const Tensors& tensors, const Tensors& results) {
  if (!op.reference) return;
  const Tensor& got = results[0];
  std::vector<std::vector<double>> columns;
  for (const Tensor& tensor : tensors) columns.push_back(native::expand(tensor, got.sizes()).to_vector());
  const Tensor expected = of_values(got.sizes(), got.dtype(), [&](size_t i) {
    std::vector<double> x;
    for (const std::vector<double>& column : columns) x.push_back(column[i]);
    return op.reference(x);
  });
  expect_near(got, expected, 1e-13, "against the reference");
}

void check_layouts(const Case& op, const Tensors& expected) {
  expect_near(called(op, mapped(op.tensors, strided)), expected, 1e-12, "strided inputs");
  if (op.writes && !op.tensors.empty()) {
    Tensors own = mapped(op.tensors, strided);
    expect_near(op.call(own), expected, 1e-12, "writing through strides");
  }
}

void check_variants(const Case& op, const Tensors& expected) {
  if (op.inplace) {
    for (const bool through_strides : {false, true}) {
      Tensors own = op.tensors;
      own[0] = through_strides ? strided(own[0]) : copy_of(own[0]);
      const uint64_t version = own[0].version();
      op.inplace(own);
      expect_near(own[0], converted(expected[0], own[0].dtype()), 1e-12, "in place");
      EXPECT_GT(own[0].version(), version) << "an in-place write must count as one";
    }
  }
  if (op.out) {
    const Tensor out = of_values(expected[0].sizes(), expected[0].dtype(), [](size_t) { return 77; });
    op.out(op.tensors, out);
    expect_near(out, expected[0], 1e-12, "out=");
    const Tensor gaps = strided(of_values(expected[0].sizes(), expected[0].dtype(), [](size_t) { return 77; }));
    op.out(op.tensors, gaps);
    expect_near(gaps, expected[0], 1e-12, "strided out=");
  }
}

/// Inputs that bfloat16 and float16 both hold exactly, so that only the op's own rounding remains.
double representable(double value) {
  if (!std::isfinite(value) || value == 0) return value;
  const double unit = std::ldexp(1.0, std::max(std::ilogb(value), -10) - 6);
  return std::round(value / unit) * unit;
}

void check_dtypes(const Case& op) {
  const Tensors exact = mapped(op.tensors, [](const Tensor& tensor) {
    if (tensor.dtype() != DType::float64) return tensor;
    const std::vector<double> values = tensor.to_vector();
    return of_values(tensor.sizes(), DType::float64, [&](size_t i) { return representable(values[i]); });
  });
  const Tensors expected = called(op, exact);
  check_reference(op, exact, expected);
  for (const auto& [dtype, tolerance] : kNarrow) {
    const Tensors inputs = mapped(exact, [&, to = dtype](const Tensor& tensor) {
      return tensor.dtype() == DType::float64 ? converted(tensor, to) : tensor;
    });
    const Tensors got = called(op, inputs);
    ASSERT_EQ(got.size(), expected.size());
    const std::string in = "in " + std::string(name(dtype));
    for (size_t i = 0; i < got.size(); ++i) {
      expect_values(got[i], expected[i], tolerance, in, 0);
      const DType follows = std::count(op.always_float64.begin(), op.always_float64.end(), i) ? DType::float64
                            : std::count(op.statistics.begin(), op.statistics.end(), i)       ? DType::float32
                                                                                              : dtype;
      EXPECT_EQ(name(got[i].dtype()), name(expected[i].dtype() == DType::float64 ? follows : expected[i].dtype()))
          << in << ": the dtype of result " << i;
    }
  }
}

void check_integers(const Case& op) {
  bool negative = true;
  const auto whole = [&](const Tensor& tensor, DType dtype) {
    const std::vector<double> values = tensor.to_vector();
    return of_values(tensor.sizes(), dtype, [&](size_t i) {
      const double value = std::round(2 * values[i]) + 0.0;  // no -0: int64 has none
      return negative ? value : std::abs(value);
    });
  };
  if (op.checks) {  // of integers some ops want none below 0
    try {
      called(op, mapped(op.tensors, [&](const Tensor& tensor) { return whole(tensor, DType::int64); }));
    } catch (const Error&) {
      negative = false;
    }
  }
  const Tensors inputs = mapped(op.tensors, [&](const Tensor& tensor) { return whole(tensor, DType::float64); });
  const Tensors expected = called(op, inputs);
  check_reference(op, inputs, expected);
  const Tensors got = called(op, mapped(op.tensors, [&](const Tensor& tensor) { return whole(tensor, DType::int64); }));
  for (size_t i = 0; i < got.size(); ++i) expect_values(got[i], expected[i], 2e-5, "of int64");
  if (!op.integers && got[0].dtype() != DType::bool_) {
    EXPECT_EQ(name(got[0].dtype()), name(DType::float32)) << "integers compute as float32";
  }
}

}  // namespace

void check(const Case& op) {
  SCOPED_TRACE(op.name);
  try {
    if (on_device()) return check_on_device(op);
    const Tensors expected = called(op, op.tensors);
    if (op.view) {
      for (const Tensor& result : expected)
        EXPECT_EQ(result.storage(), op.tensors[0].storage()) << "a view shares its base's storage";
    }
    check_reference(op, op.tensors, expected);
    if (op.layouts && op.strided) check_layouts(op, expected);
    check_variants(op, expected);
    check_wrong_arguments(op);
    if (op.dtypes && op.layouts) check_dtypes(op);
    bool all_floating = !op.tensors.empty();
    for (const Tensor& tensor : op.tensors) all_floating = all_floating && tensor.defined() && tensor.dtype() == DType::float64;
    if (op.pointwise && all_floating) check_integers(op);
    if (op.pointwise && all_floating) check_accuracy(op);
    if (op.derivatives) check_derivatives(op);
    if (op.derivatives && op.pointwise) check_third_order(op);
    if (op.pointwise && all_floating && op.derivatives && op.tensors.size() == 1) check_limits(op);
    check_semantics(op);
  } catch (const Error& error) {
    ADD_FAILURE() << error.message();
  }
}

}  // namespace deckle::suite
