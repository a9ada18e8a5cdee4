#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>

#include "deckle/base/parallel.h"
#include "deckle/kernels/args/context.h"
#include "tests/kernels/cpu/support/buffer.h"

namespace deckle::kernels::cpu {
void grouped_mm(const Context&, const View& self, const RaggedView& self_shape, const View& other, const RaggedView& other_shape,
                const RaggedView& product_shape, bool transpose_self, bool transpose_other, const View& result);
}

namespace deckle {
namespace {

using testing::Buffer;
using testing::poisoned;
using testing::random_normal;
using testing::values;

/// Sizes of one matrix per component.
struct Matrices {
  std::vector<int64_t> sizes, offsets = {0};

  void add(int64_t rows, int64_t cols) {
    sizes.push_back(rows);
    sizes.push_back(cols);
    offsets.push_back(offsets.back() + rows * cols);
  }
  RaggedView view() const { return {static_cast<int64_t>(offsets.size()) - 1, 2, sizes.data(), offsets.data()}; }
  Buffer random(DType dtype) const { return random_normal({offsets.back()}, dtype); }
};

struct Problem {
  Matrices a, b, c;
  bool transpose_a, transpose_b;

  void add(int64_t m, int64_t n, int64_t k) {
    transpose_a ? a.add(k, m) : a.add(m, k);
    transpose_b ? b.add(n, k) : b.add(k, n);
    c.add(m, n);
  }
  void run(const Buffer& x, const Buffer& y, const Buffer& z) const {
    kernels::cpu::grouped_mm({}, x.view, a.view(), y.view, b.view(), c.view(), transpose_a, transpose_b, z.view);
  }
};

void expect_products(const Problem& problem, DType dtype) {
  const Buffer x = problem.a.random(dtype), y = problem.b.random(dtype), z = poisoned({problem.c.offsets.back()}, dtype);
  problem.run(x, y, z);
  const std::vector<double> xs = values(x.view), ys = values(y.view), zs = values(z.view);
  for (size_t i = 0; i + 1 < problem.c.offsets.size(); ++i) {
    const int64_t m = problem.c.sizes[2 * i], n = problem.c.sizes[2 * i + 1];
    const int64_t k = problem.a.sizes[2 * i + (problem.transpose_a ? 0 : 1)];
    // Sums of k products have size about sqrt(k) and are taken in float32 or float64; then the result is rounded.
    const double root = std::sqrt(static_cast<double>(k) + 1), summed = (dtype == DType::float64 ? 4e-14 : 8e-6) * root;
    const double rounded = dtype == DType::bfloat16 ? 4e-3 : dtype == DType::float16 ? 5e-4 : 0.0;
    for (int64_t row = 0; row < m; ++row) {
      for (int64_t col = 0; col < n; ++col) {
        double want = 0;
        for (int64_t p = 0; p < k; ++p) {
          want += xs[static_cast<size_t>(problem.a.offsets[i] + (problem.transpose_a ? p * m + row : row * k + p))] *
                  ys[static_cast<size_t>(problem.b.offsets[i] + (problem.transpose_b ? col * k + p : p * n + col))];
        }
        const double got = zs[static_cast<size_t>(problem.c.offsets[i] + row * n + col)];
        ASSERT_NEAR(got, want, summed + rounded * std::abs(want) + (rounded > 0 ? 1e-7 : 0))
            << fmt::format("component {} [{}, {}, {}] at {}, {}, {}", i, m, n, k, row, col, name(dtype));
      }
    }
  }
}

constexpr DType kFloating[] = {DType::float16, DType::bfloat16, DType::float32, DType::float64};

TEST(GroupedMm, EqualsTheNaiveProductsForAnySizes) {
  for (const DType dtype : kFloating) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        Problem problem{.transpose_a = transpose_a, .transpose_b = transpose_b};
        for (const auto& [m, n, k] :
             {std::tuple(3, 4, 5), std::tuple(0, 4, 5), std::tuple(3, 0, 2), std::tuple(2, 7, 0), std::tuple(1, 1, 1),
              std::tuple(67, 33, 130), std::tuple(130, 65, 64), std::tuple(5, 3, 1100)})
          problem.add(m, n, k);
        expect_products(problem, dtype);
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST(GroupedMm, OneShapeButForItsRowsTakesTheCompiledTiles) {
  for (const DType dtype : kFloating) {
    Problem problem{.transpose_a = false, .transpose_b = true};
    for (const int64_t rows : {5, 0, 1, 200, 64}) problem.add(rows, 48, 40);
    expect_products(problem, dtype);
  }
}

// The gradient of a factor of each component's rows.
TEST(GroupedMm, OneShapeButForItsDepthTakesThemToo) {
  for (const DType dtype : kFloating) {
    Problem problem{.transpose_a = true, .transpose_b = false};
    for (const int64_t depth : {5, 0, 1, 200, 64, 1100}) problem.add(48, 130, depth);
    expect_products(problem, dtype);
  }
}

TEST(GroupedMm, NoComponentsAndNothingInThem) {
  for (const bool empty : {false, true}) {
    Problem problem{.transpose_a = false, .transpose_b = false};
    if (empty) problem.add(0, 0, 0);
    expect_products(problem, DType::float32);
  }
}

TEST(GroupedMm, AnyNumberOfThreadsGivesTheSameBits) {
  Problem problem{.transpose_a = false, .transpose_b = false};
  for (int i = 0; i < 40; ++i) problem.add(1 + i * 7, 1 + i * 5, 1 + i * 11);
  const Buffer x = problem.a.random(DType::float32), y = problem.b.random(DType::float32);
  std::vector<double> first;
  const int before = num_threads();
  for (const int threads : {1, 2, 3, 8}) {
    set_num_threads(threads);
    const Buffer z = poisoned({problem.c.offsets.back()}, DType::float32);
    problem.run(x, y, z);
    if (first.empty()) first = values(z.view);
    EXPECT_EQ(values(z.view), first) << threads << " threads";
  }
  set_num_threads(before);
}

TEST(GroupedMm, BitsDoNotDependOnAnEmptyProductBeside) {
  Problem alone{.transpose_a = false, .transpose_b = false}, beside = alone;
  alone.add(40, 24, 72);
  beside.add(0, 40, 56);
  beside.add(40, 24, 72);
  for (const DType dtype : {DType::bfloat16, DType::float32}) {
    const Buffer x = alone.a.random(dtype), y = alone.b.random(dtype), all = beside.b.random(dtype);
    const size_t width = static_cast<size_t>(item_size(dtype));
    std::memcpy(static_cast<std::byte*>(all.view.data) + 40 * 56 * width, y.view.data, 24 * 72 * width);
    const Buffer first = poisoned({40 * 24}, dtype), second = poisoned({40 * 24}, dtype);
    alone.run(x, y, first);
    beside.run(x, all, second);
    EXPECT_EQ(std::memcmp(first.view.data, second.view.data, 40 * 24 * width), 0);
  }
}

}  // namespace
}  // namespace deckle
