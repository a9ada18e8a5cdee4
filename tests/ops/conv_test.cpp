// Convolution along ragged sequences and its two gradients beside a plain loop: blocks of one tap and of several, inside of one
// sequence and across, every residue of a stride, groups, one channel a group, widths that need several tiles.

#include "deckle/ops/generated/conv.h"

#include <limits>

#include "deckle/core/allocator.h"
#include "deckle/core/ragged_shape.h"
#include "deckle/functional/transforms.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/ops/windows.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace deckle {
namespace {

using namespace testing;

struct Shape {
  std::vector<int64_t> lengths;
  int64_t in, out, size, stride, dilation, groups;
  Padding padding;
};

struct Expected {
  std::vector<double> result, values, weight;
};

/// Of values [rows, G in], weight [G out, in, size] and the gradient [windows, G out], all as double.
Expected naive(const Shape& shape, const Ragged& ragged, const Ragged& windows, int64_t before, const std::vector<double>& x,
               const std::vector<double>& w, const std::vector<double>& g) {
  const int64_t channels = shape.in * shape.groups, outputs = shape.out * shape.groups;
  Expected sums{std::vector<double>(g.size()), std::vector<double>(x.size()), std::vector<double>(w.size())};
  for (int64_t b = 0; b < ragged->components(); ++b) {
    for (int64_t window = 0; window < windows->size(b); ++window) {
      for (int64_t t = 0; t < shape.size; ++t) {
        const int64_t row = window * shape.stride - before + t * shape.dilation;
        if (row < 0 || row >= ragged->size(b)) continue;
        for (int64_t o = 0; o < outputs; ++o) {
          for (int64_t c = 0; c < shape.in; ++c) {
            const int64_t at_x = (ragged->offset(b) + row) * channels + o / shape.out * shape.in + c;
            const int64_t at_w = (o * shape.in + c) * shape.size + t, at_g = (windows->offset(b) + window) * outputs + o;
            sums.result[static_cast<size_t>(at_g)] += x[static_cast<size_t>(at_x)] * w[static_cast<size_t>(at_w)];
            sums.values[static_cast<size_t>(at_x)] += g[static_cast<size_t>(at_g)] * w[static_cast<size_t>(at_w)];
            sums.weight[static_cast<size_t>(at_w)] += g[static_cast<size_t>(at_g)] * x[static_cast<size_t>(at_x)];
          }
        }
      }
    }
  }
  return sums;
}

void expect_near(const Tensor& got, const std::vector<double>& expected, double tolerance, const char* what) {
  const std::vector<double> values = got.to_vector();
  ASSERT_EQ(values.size(), expected.size()) << what;
  double largest = 1, worst = 0;
  for (const double each : expected) largest = std::max(largest, std::abs(each));
  for (size_t i = 0; i < values.size(); ++i) worst = std::max(worst, std::abs(values[i] - expected[i]));
  EXPECT_LE(worst, tolerance * largest) << what;
}

const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all = {
      {{7, 0, 1, 30, 2}, 3, 5, 3, 1, 1, 1, Padding::same},    {{40, 3, 17}, 2, 4, 3, 2, 1, 1, Padding::same},
      {{40, 3, 17}, 4, 3, 4, 3, 2, 1, Padding::causal},       {{9, 25}, 3, 2, 3, 1, 2, 4, Padding::valid},
      {{9, 25, 1}, 1, 1, 3, 1, 1, 6, Padding::same},          {{9, 25, 1}, 1, 1, 4, 3, 2, 6, Padding::causal},
      {{9, 25, 1}, 1, 2, 3, 2, 1, 5, Padding::same},          {{700, 3}, 260, 20, 3, 1, 1, 1, Padding::same},
      {{300, 290, 10}, 24, 300, 5, 1, 1, 1, Padding::causal}, {{5000}, 1, 1, 3, 1, 1, 3, Padding::same},
      {{6, 2, 5}, 2, 2, 2, 5, 1, 1, Padding::valid},          {{20, 9}, 4, 4, 1, 1, 1, 1, Padding::valid},
  };
  return all;
}

TEST(Convolution, AgreesWithAPlainLoopInEveryDtype) {
  for (const Shape& shape : shapes()) {
    const Ragged ragged = Ragged::from_lengths(shape.lengths);
    const Ragged windows =
        shapes::count_windows(ragged, shape.size, shape.stride, shape.dilation, shape.padding == Padding::valid);
    for (const auto& [dtype, tolerance] :
         {std::pair(DType::float64, 1e-13), std::pair(DType::float32, 1e-5), std::pair(DType::bfloat16, 1e-2)}) {
      SCOPED_TRACE(fmt::format("{} {} {} {} {}", shape.lengths[0], shape.in, shape.out, shape.stride, name(dtype)));
      const Tensor x = random_tensor({ragged->rows(), shape.in * shape.groups}, dtype);
      const Tensor w = random_tensor({shape.out * shape.groups, shape.in, shape.size}, dtype);
      const Tensor g = random_tensor({windows->rows(), shape.out * shape.groups}, dtype);
      const int64_t before =
          shapes::window_lead(shape.size, shape.dilation, shape.padding == Padding::same, shape.padding == Padding::causal);
      const Expected expected = naive(shape, ragged, windows, before, x.to_vector(), w.to_vector(), g.to_vector());
      expect_near(segment_convolution(x, ragged, windows, w, {}, shape.stride, shape.dilation, before, shape.groups),
                  expected.result, tolerance, "result");
      expect_near(segment_convolution_transpose(g, windows, ragged, w, shape.stride, shape.dilation, before, shape.groups),
                  expected.values, tolerance, "gradient of the values");
      expect_near(
          segment_convolution_weight(x, ragged, g, windows, shape.size, shape.stride, shape.dilation, before, shape.groups),
          expected.weight, tolerance, "gradient of the weight");
    }
  }
}

TEST(Convolution, KeepsNoMatrixOfWindows) {
  const Tensor input = random_tensor({1, 20'000, 64}, DType::float32), weight = random_tensor({64, 64, 9}, DType::float32);
  const int64_t bytes = input.numel() * 4, before = memory_stats().in_use;
  reset_peak_memory();
  const Tensor result = conv1d(input, weight, {}, {.padding = Padding::same});
  EXPECT_LT(memory_stats().peak - before, bytes * 3 / 2) << "the windows would be nine times the input";
}

TEST(Convolution, ForwardModeMultipliesNoZeroTangents) {
  const Ragged ragged = Ragged::from_lengths(std::vector<int64_t>{4, 2});
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor infinite = full({6, 2}, infinity), kernels = full({3, 2, 1}, infinity), gradients = full({6, 3}, infinity);
  const Tensor x = ones({6, 2}), w = ones({3, 2, 1}), g = ones({6, 3});
  const auto tangent = [](const auto& f, const Tensor& at) { return jvp(f, at, ones(at.sizes())).second; };
  const auto convolved = [&](const Tensor& a, const Tensor& b, const Tensor& bias) {
    return segment_convolution(a, ragged, ragged, b, bias, 1, 1, 0, 1);
  };
  expect_equal(tangent([&](const Tensor& bias) { return convolved(infinite, w, bias); }, zeros({3})), ones({6, 3}));
  expect_equal(tangent([&](const Tensor& a) { return convolved(a, w, {}); }, infinite), full({6, 3}, 2.0));
  expect_equal(tangent([&](const Tensor& b) { return convolved(x, b, {}); }, kernels), full({6, 3}, 2.0));
  const auto transposed = [&](const Tensor& a, const Tensor& b) {
    return segment_convolution_transpose(a, ragged, ragged, b, 1, 1, 0, 1);
  };
  expect_equal(tangent([&](const Tensor& a) { return transposed(a, w); }, gradients), full({6, 2}, 3.0));
  expect_equal(tangent([&](const Tensor& b) { return transposed(g, b); }, kernels), full({6, 2}, 3.0));
  const auto of_weight = [&](const Tensor& a, const Tensor& b) {
    return segment_convolution_weight(a, ragged, b, ragged, 1, 1, 1, 0, 1);
  };
  expect_equal(tangent([&](const Tensor& a) { return of_weight(a, g); }, infinite), full({3, 2, 1}, 6.0));
  expect_equal(tangent([&](const Tensor& b) { return of_weight(x, b); }, gradients), full({3, 2, 1}, 6.0));
}

}  // namespace
}  // namespace deckle
