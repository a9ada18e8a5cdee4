#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <span>

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/simd/targets.h"
#include "tests/kernels/cpu/support/buffer.h"

/// Random operands of reductions and their rows, one by one.
namespace deckle::kernels::cpu {

using testing::Buffer;
using Dims = std::optional<std::span<const int64_t>>;
using Row = std::vector<double>;

inline const Context kContext;
inline const double kInfinity = std::numeric_limits<double>::infinity();

inline int64_t below(int64_t end) { return std::uniform_int_distribution<int64_t>(0, end - 1)(testing::engine()); }

/// The unit of the bounds below: a rounding on the way, one at the end, and those of the reference.
inline double rounding(DType dtype) { return testing::rounding_bound(dtype, 2); }

/// The elements of each index of the kept dims, in order.
inline std::vector<Row> rows_of(const View& view, const std::vector<int64_t>& dims) {
  const std::vector<double> all = testing::values(view);
  const auto reduced = [&](int d) { return dims.empty() || std::find(dims.begin(), dims.end(), d) != dims.end(); };
  int64_t rows = 1;
  for (int d = 0; d < view.ndim; ++d)
    if (!reduced(d)) rows *= view.sizes[d];
  std::vector<Row> result(static_cast<size_t>(rows));
  for (int64_t i = 0; i < static_cast<int64_t>(all.size()); ++i) {
    int64_t row = 0, rest = i, scale = 1;
    for (int d = view.ndim - 1; d >= 0; --d) {
      if (!reduced(d)) row += rest % view.sizes[d] * scale, scale *= view.sizes[d];
      rest /= view.sizes[d];
    }
    result[static_cast<size_t>(row)].push_back(all[static_cast<size_t>(i)]);
  }
  return result;
}

/// The rows along `dim` put back into the order of a view of these sizes.
inline std::vector<double> along(const View& shape, int64_t dim, const std::vector<Row>& rows) {
  std::vector<double> result(static_cast<size_t>(shape.numel()));
  for (int64_t i = 0; i < shape.numel(); ++i) {
    int64_t row = 0, rest = i, scale = 1, at = 0;
    for (int d = shape.ndim - 1; d >= 0; --d) {
      if (d == dim)
        at = rest % shape.sizes[d];
      else
        row += rest % shape.sizes[d] * scale, scale *= shape.sizes[d];
      rest /= shape.sizes[d];
    }
    result[static_cast<size_t>(i)] = rows[static_cast<size_t>(row)][static_cast<size_t>(at)];
  }
  return result;
}

inline std::vector<int64_t> random_sizes() {
  const std::vector<std::vector<int64_t>> chosen = {{70000},      {3, 50000},   {50000, 3}, {300, 300}, {2000, 17}, {5, 100, 64},
                                                    {40, 2, 700}, {1},          {},         {0},        {4, 0},     {0, 4},
                                                    {100001, 1},  {9, 8, 7, 6}, {1000, 33}, {1030, 2},  {513, 4},   {2, 3000},
                                                    {30, 70, 5},  {600, 8},     {33, 16, 2}};
  if (below(2)) return chosen[static_cast<size_t>(below(static_cast<int64_t>(chosen.size())))];
  std::vector<int64_t> sizes;
  for (int64_t d = below(5); d > 0; --d) sizes.push_back(1 + below(9));
  return sizes;
}

inline Buffer random_view(const std::vector<int64_t>& sizes, DType dtype) {
  Buffer buffer = is_floating(dtype) ? testing::random_normal(sizes, dtype)
                                     : testing::random_integers(sizes, dtype, 0, dtype == DType::bool_ ? 2 : 9);
  for (int64_t swaps = sizes.size() > 1 ? below(3) : 0; swaps > 0; --swaps) {
    const int64_t a = below(buffer.view.ndim), b = below(buffer.view.ndim);
    std::swap(buffer.view.sizes[a], buffer.view.sizes[b]);
    std::swap(buffer.view.strides[a], buffer.view.strides[b]);
  }
  return buffer;
}

inline std::vector<int64_t> random_dims(int ndim) {
  std::vector<int64_t> dims;
  for (int d = 0; d < ndim; ++d)
    if (below(2)) dims.push_back(d);
  return dims;
}

inline DType random_floating() {
  return std::array{DType::float32, DType::float32, DType::float64, DType::bfloat16,
                    DType::float16}[static_cast<size_t>(below(5))];
}

/// Once for every instruction set of the machine.
class EveryTarget : public ::testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { simd::force_target(GetParam()); }
};

}  // namespace deckle::kernels::cpu
