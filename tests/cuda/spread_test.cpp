// Mean, variance and standard deviation of float64 of any size on a GPU: of rows, columns and components, and slopes.
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "deckle/deckle.h"
#include "deckle/dispatch/view.h"
#include "tests/cuda/gpu.h"
#include "tests/kernels/cpu/support/magnitudes.h"
#include "tests/support/expect.h"

namespace deckle {
namespace {

using Columns = std::vector<std::vector<double>>;

void expect_spread(const Tensor& got, const Columns& columns, int64_t correction, bool root) {
  std::vector<double> want;
  for (const auto& column : columns) want.push_back(testing::exact_spread(column, correction, root));
  EXPECT_EQ(got.device(), kGpu);
  const Tensor here = got.to(Device());
  testing::expect_spread(dispatch::view(here), want, columns, root);
}

TEST(CudaSpread, OfRowsAndColumnsOfAllMagnitudes) {
  NEEDS_GPU();
  for (const int64_t n : {1, 2, 7, 40, 1500, 20'000}) {  // a warp a row, a block, parts of one
    for (const int64_t copies : {1, 3, 16, 21, 64}) {    // columns one by one, and by vectors
      Columns columns;
      std::vector<double> packed;
      for (int64_t c = 0; c < copies; ++c) {
        columns.push_back(testing::column_of_any_magnitude(n));
        packed.insert(packed.end(), columns.back().begin(), columns.back().end());
      }
      const Tensor rows = tensor(packed).reshape({copies, n}).to(kGpu), turned = rows.t().contiguous();
      for (const int64_t correction : {0, 1}) {
        SCOPED_TRACE(std::to_string(copies) + " x " + std::to_string(n) + ", correction " + std::to_string(correction));
        expect_spread(var(rows, {1}, {.correction = correction}), columns, correction, false);
        expect_spread(deckle::std(rows, {1}, {.correction = correction}), columns, correction, true);
        expect_spread(var(turned, {0}, {.correction = correction}), columns, correction, false);
        expect_spread(deckle::std(turned, {0}, {.correction = correction}), columns, correction, true);
      }
    }
  }
}

TEST(CudaSpread, OfComponentsOfAllMagnitudes) {
  NEEDS_GPU();
  const std::vector<int64_t> lengths = {3, 0, 40, 1, 2000};
  for (const int64_t inner : {1, 3, 40}) {
    Columns columns;
    std::vector<Tensor> components;
    for (const int64_t length : lengths) {
      std::vector<double> packed;
      for (int64_t c = 0; c < inner; ++c) {
        columns.push_back(testing::column_of_any_magnitude(length));
        packed.insert(packed.end(), columns.back().begin(), columns.back().end());
      }
      components.push_back(tensor(packed).reshape({inner, length}).t().contiguous());
    }
    const NestedTensor x = NestedTensor::from_list(components).to(kGpu);
    SCOPED_TRACE(inner);
    expect_spread(var(x, {1}, {.correction = 0}).dense(), columns, 0, false);
    expect_spread(deckle::std(x, {1}, {.correction = 0}).dense(), columns, 0, true);
  }
}

TEST(CudaSpread, OfInfiniteElementsIsNan) {
  NEEDS_GPU();
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor x = tensor({inf, 1e200, 1e-200, -inf, 1.0, 1.0, std::nan(""), 1e200, 0.0}).reshape({3, 3}).to(kGpu);
  for (const int64_t dim : {0, 1}) {
    const Tensor rows = dim == 1 ? x : x.t().contiguous();
    for (const double value : var(rows, {dim}).to_vector()) EXPECT_TRUE(std::isnan(value)) << "dim " << dim;
  }
}

/// Of {u, 3 u}: 1 u, whose slopes are -1/2 and 1/2.
TEST(CudaSpread, HasItsSlope) {
  NEEDS_GPU();
  const StdOptions whole{.correction = 0};
  for (const double u : {1e307, 1e200, 1e155, 1e-155, 1e-200, 1e-300}) {
    SCOPED_TRACE(u);
    const Tensor x = tensor({u, 3 * u}).to(kGpu);
    const auto check = [&](const std::function<Tensor(const Tensor&)>& f) {
      const Tensor slope = grad(f, x).to(Device());
      testing::expect_close(slope, tensor({-0.5, 0.5}), 1e-14, 1e-14);
      EXPECT_NEAR(jvp(f, x, tensor({1.0, 3.0}).to(kGpu)).second.item(), 1, 1e-14);
    };
    check([&](const Tensor& y) { return deckle::std(y, std::nullopt, whole); });
    check([&](const Tensor& y) { return deckle::sum(deckle::std(NestedTensor::from_lengths(y, {2}), {1}, whole).dense()); });
    const auto variance = [&](const Tensor& y) { return var(y, std::nullopt, {.correction = 0}); };
    EXPECT_NEAR(grad(variance, x).to_vector()[1] / u, 1, 1e-14);
  }
}

/// Sums of 2^1023 and more leave float64, on the way or for good; the mean never does.
TEST(CudaMean, OfElementsWhoseSumLeavesFloat64) {
  NEEDS_GPU();
  const double u = 0x1p1022;
  for (const int64_t n : {1, 3, 40, 1500, 20'000}) {  // a warp a row, a block, parts of one
    for (const int64_t copies : {1, 16, 21}) {
      SCOPED_TRACE(std::to_string(copies) + " x " + std::to_string(n));
      std::vector<double> packed, want;
      std::vector<int64_t> lengths(copies, n);
      for (int64_t c = 0; c < copies; ++c) {
        // u (1 + c / 64) (2 - alternating by the row's index): an odd n has one more of the larger.
        const double of_row = u * (1 + static_cast<double>(c) / 64);
        for (int64_t i = 0; i < n; ++i) packed.push_back(i % 2 == 0 ? of_row * 1.25 : of_row);
        want.push_back(of_row * (1 + 0.25 * static_cast<double>((n + 1) / 2) / static_cast<double>(n)));
      }
      const Tensor rows = tensor(packed).reshape({copies, n}).to(kGpu), turned = rows.t().contiguous();
      const NestedTensor components = NestedTensor::from_lengths(rows.reshape({copies * n}), lengths);
      for (const Tensor& got : {mean(rows, {1}), mean(turned, {0}), mean(components, {1}).dense()}) {
        EXPECT_EQ(got.device(), kGpu);
        const std::vector<double> here = got.to_vector();
        for (int64_t c = 0; c < copies; ++c) EXPECT_NEAR(here[c] / want[c], 1, 1e-12) << "row " << c;
      }
    }
  }
  const double inf = std::numeric_limits<double>::infinity(), most = std::numeric_limits<double>::max();
  EXPECT_EQ(mean(tensor({most, most, -most, -most}).to(kGpu)).item(), 0);
  EXPECT_EQ(mean(tensor({inf, most, most}).to(kGpu)).item(), inf);
  EXPECT_TRUE(std::isnan(mean(tensor({inf, most, -inf}).to(kGpu)).item()));
}

}  // namespace
}  // namespace deckle
