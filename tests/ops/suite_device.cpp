#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <string_view>

#include "deckle/core/cuda/counters.h"
#include "deckle/core/cuda/device.h"
#include "deckle/core/factory_device.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "tests/ops/suite_device.h"

namespace deckle::suite {
namespace {

/// Every other element of memory on the same device, dims in column-major order.
Tensor with_gaps(const Tensor& tensor) {
  Dims sizes(tensor.sizes());
  sizes.push_back(2);
  Tensor memory = empty(sizes, tensor.dtype(), tensor.device());
  Tensor result = memory.select(-1, 1);
  if (tensor.dim() > 1) {
    Dims turned(sizes);
    std::swap(turned[0], turned[static_cast<size_t>(tensor.dim()) - 1]);
    result = empty(turned, tensor.dtype(), tensor.device()).select(-1, 0).transpose(0, tensor.dim() - 1);
  }
  result.copy_(tensor);
  return result;
}

/// What the CPU gives for whole numbers in an integer dtype, or refuses because of it, the GPU gives and refuses too.
void check_integers(const Case& op, DType dtype) {
  const Tensors whole = mapped(op.tensors, [&](const Tensor& tensor) {
    if (!tensor.defined() || tensor.dtype() != DType::float64) return tensor;
    std::vector<double> values = tensor.to_vector<double>();
    for (double& x : values) x = dtype == DType::uint8 ? std::round(std::abs(5 * x)) : std::round(5 * x);
    return of_values(tensor.sizes(), dtype, [&](size_t k) { return values[k]; });
  });
  const std::string what = "in " + std::string(name(dtype));
  Tensors expected;
  try {
    expected = called(op, whole);
  } catch (const Error& error) {
    if (error.detail().find(name(dtype)) != std::string::npos) {
      EXPECT_THROW(called(op, on_gpu(whole)), Error) << what << ", which the CPU refuses: " << error.message();
    }
    return;
  }
  expect_on_gpu(called(op, on_gpu(whole)), expected, 1e-5, what);
}

void check_values(const Case& op) {
  const Tensors expected = called(op, op.tensors), inputs = on_gpu(op.tensors);
  const int64_t waits = cuda::counters(kGpu).waits;
  const Tensors got = called(op, inputs);
  if (!op.host) {
    EXPECT_EQ(cuda::counters(kGpu).waits, waits) << "the host waited for the GPU: its entry says `host` and why, if it must";
  }
  expect_on_gpu(got, expected, 1e-12, "on the GPU");
  if (op.layouts && op.strided) expect_on_gpu(called(op, mapped(inputs, with_gaps)), expected, 1e-12, "strided inputs");
  if (op.inplace) {
    Tensors own = inputs;
    own[0] = clone(own[0]);
    op.inplace(own);
    expect_near(own[0], converted(expected[0], own[0].dtype()), 1e-12, "in place");
  }
  if (op.out) {
    const Tensor out = empty(expected[0].sizes(), expected[0].dtype(), kGpu);
    op.out(inputs, out);
    expect_near(out, expected[0], 1e-12, "out=");
  }
  check_wrong_arguments_on_device(op);
  if (op.derivatives) check_derivatives_on_device(op);
  if (op.derivatives && op.dtypes) check_narrow_gradients_on_device(op);
  if (!op.dtypes || !op.layouts) return;
  for (const auto& [dtype, tolerance] :
       {std::pair(DType::float32, 1e-5), std::pair(DType::bfloat16, 1.6e-2), std::pair(DType::float16, 2e-3)}) {
    const Tensors narrow = mapped(op.tensors, [&, to = dtype](const Tensor& tensor) {
      return tensor.dtype() == DType::float64 ? converted(tensor, to) : tensor;
    });
    expect_on_gpu(called(op, on_gpu(narrow)), called(op, narrow), tolerance, "in " + std::string(name(dtype)));
  }
  for (const DType dtype : {DType::int64, DType::int32, DType::uint8}) check_integers(op, dtype);
}

/// An op without tensors makes its results where the thread says.
void check_factory(const Case& op) {
  const Tensors expected = called(op, op.tensors);
  const OnDevice there(kGpu);
  expect_on_gpu(called(op, op.tensors), expected, 1e-12, "made on the GPU");
}

}  // namespace

Tensors on_gpu(const Tensors& tensors) {
  return mapped(tensors, [](const Tensor& tensor) { return tensor.to(kGpu); });
}

void expect_on_gpu(const Tensors& got, const Tensors& expected, double tolerance, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    if (!got[i].defined() && !expected[i].defined()) continue;
    ASSERT_TRUE(got[i].defined() && expected[i].defined()) << what;
    EXPECT_EQ(to_string(got[i].device()), to_string(kGpu)) << what;
    expect_near(got[i], expected[i], tolerance, what);
  }
}

bool on_device() {
  static const bool wanted = [] {
    const char* const device = std::getenv("DECKLE_TEST_DEVICE");
    return device != nullptr && std::string_view(device) == "cuda";
  }();
  return wanted;
}

void check_on_device(const Case& op) {
  if (cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU";
  if (op.of_cpu && !cuda::fake()) GTEST_SKIP() << "has no CUDA kernel: formulas for the CPU alone call it";
  bool lives = false;
  for (const Tensor& tensor : op.tensors) lives = lives || tensor.defined();
  try {
    lives ? check_values(op) : check_factory(op);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::not_implemented || !op.host) throw;  // a part of it reads values on the host
    GTEST_SKIP() << error.message();
  }
}

}  // namespace deckle::suite
