// Reductions and row kernels against naive loops in float64: any dims, strides, dtypes, instruction sets and threads.
#include <functional>
#include <numeric>

#include "tests/kernels/cpu/reduce/operands.h"
#include "tests/kernels/cpu/support/threads.h"

namespace deckle::kernels::cpu {

void sum(const Context&, const View&, Dims, bool, const View&);
void mean(const Context&, const View&, Dims, bool, const View&);
void amax(const Context&, const View&, Dims, bool, const View&);
void amin(const Context&, const View&, Dims, bool, const View&);
void prod(const Context&, const View&, Dims, bool, const View&);
void copy(const Context&, const View&, const View&);
void softmax(const Context&, const View&, int64_t, const View&);
void log_softmax(const Context&, const View&, int64_t, const View&);
void softmax_backward(const Context&, const View&, const View&, int64_t, const View&);
void log_softmax_backward(const Context&, const View&, const View&, int64_t, const View&);
void logsumexp(const Context&, const View&, int64_t, bool, const View&);
void cumsum(const Context&, const View&, int64_t, bool, const View&);
void others_of_rows(const Context&, const View&, Dims, const View&);
void sum_of_products(const Context&, const View&, const View&, const View&);
void argmax(const Context&, const View&, std::optional<int64_t>, bool, const View&);
void argmin(const Context&, const View&, std::optional<int64_t>, bool, const View&);
void max(const Context&, const View&, int64_t, bool, const View&, const View&);
void min(const Context&, const View&, int64_t, bool, const View&, const View&);

namespace {

INSTANTIATE_TEST_SUITE_P(, EveryTarget, ::testing::ValuesIn(simd::usable_targets()),
                         [](const auto& info) { return std::string(hwy::TargetName(info.param)); });

TEST_P(EveryTarget, FoldsEqualLoops) {
  struct Case {
    const char* name;
    void (*kernel)(const Context&, const View&, Dims, bool, const View&);
    std::function<double(const Row&)> of;
    bool integers;
  };
  const Case cases[] = {
      {"sum", sum,
       [](const Row& x) {
         double s = 0;
         for (double v : x) s += v;
         return s;
       },
       true},
      {"mean", mean,
       [](const Row& x) {
         double s = 0;
         for (double v : x) s += v;
         return s / static_cast<double>(x.size());
       },
       false},
      {"amax", amax,
       [](const Row& x) {
         double s = -kInfinity;
         for (double v : x) s = std::max(s, v);
         return s;
       },
       true},
      {"amin", amin,
       [](const Row& x) {
         double s = kInfinity;
         for (double v : x) s = std::min(s, v);
         return s;
       },
       true},
  };
  for (int round = 0; round < 25; ++round) {
    for (const Case& c : cases) {
      const bool integers = c.integers && below(4) == 0;
      const DType dtype = integers
                              ? std::array{DType::int64, DType::int32, DType::uint8, DType::bool_}[static_cast<size_t>(below(4))]
                              : random_floating();
      const Buffer x = random_view(random_sizes(), dtype);
      const std::vector<int64_t> dims = random_dims(x.view.ndim);
      const std::vector<Row> rows = rows_of(x.view, dims);
      const bool empty_rows = !rows.empty() && rows[0].empty();
      if (empty_rows && c.name[0] == 'a') continue;  // checked by the entry
      std::vector<double> want;
      double scale = 1;
      for (const Row& row : rows) {
        want.push_back(c.of(row));
        double magnitude = 0;
        for (double v : row) magnitude += std::abs(v);
        if (c.name[0] == 's') scale = std::max(scale, magnitude);
        if (c.name[0] == 'm') scale = std::max(1e-300, magnitude / static_cast<double>(row.size()));
      }
      Buffer result = testing::poisoned({static_cast<int64_t>(rows.size())}, integers ? DType::int64 : dtype);
      SCOPED_TRACE(
          ::testing::Message() << c.name << " " << name(dtype) << " sizes "
                               << ::testing::PrintToString(std::vector<int64_t>(x.view.sizes, x.view.sizes + x.view.ndim))
                               << " dims " << ::testing::PrintToString(dims));
      c.kernel(kContext, x.view, dims.empty() ? Dims() : Dims(dims), false, result.view);
      // A float sum of n terms is off by a few roundings of the largest block sum, not by n of them.
      const double tolerance = integers ? 0
                               : c.name[0] == 's'
                                   ? std::max(rounding(dtype), rounding(DType::float32) * (dtype != DType::float64))
                                   : 4 * rounding(dtype) * (c.name[0] == 'a' ? 0 : 1);
      testing::expect_close(result.view, want, tolerance,
                            c.name[0] == 's' && is_floating(dtype) ? scale
                            : c.name[0] == 'm'                     ? scale
                                                                   : 1e-300);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(EveryTarget, ALongSumOfFloatsLosesAlmostNothing) {
  Buffer x({10'000'000}, DType::float32);
  std::fill_n(x.view.ptr<float>(), 10'000'000, 0.1f);
  Buffer result = testing::poisoned({1}, DType::float32);
  sum(kContext, x.view, std::nullopt, false, result.view);
  EXPECT_NEAR(result.view.ptr<float>()[0], 10'000'000 * static_cast<double>(0.1f),
              0.5);  // 5e-7 of it; one after the other would lose 9 %
}

// Of every length that a vector, or a few, may leave something of, modulo 2^64.
TEST_P(EveryTarget, ProductsOfIntegersLoseNoFactor) {
  for (const DType dtype : {DType::int64, DType::int32, DType::uint8}) {
    for (int64_t length = 1; length <= 70; ++length) {
      Buffer x({2, length}, dtype);
      for (int64_t i = 0; i < 2 * length; ++i) testing::store(x.view.data, dtype, i, static_cast<double>(2 * (i % 97) + 3));
      Buffer result = testing::poisoned({2}, DType::int64);
      const int64_t dim = 1;
      prod(kContext, x.view, std::span(&dim, 1), false, result.view);
      for (int64_t row = 0; row < 2; ++row) {
        uint64_t product = 1;
        for (int64_t i = 0; i < length; ++i) product *= static_cast<uint64_t>(2 * ((row * length + i) % 97) + 3);
        ASSERT_EQ(static_cast<uint64_t>(result.view.ptr<int64_t>()[row]), product) << name(dtype) << " of " << length;
      }
    }
  }
}

TEST_P(EveryTarget, ANanWinsAndInfinitiesAdd) {
  Buffer x = testing::random_normal({3, 100}, DType::float32);
  x.view.ptr<float>()[57] = std::nanf("");
  x.view.ptr<float>()[203] = static_cast<float>(kInfinity);
  const int64_t dim = 1;
  Buffer result = testing::poisoned({3}, DType::float32);
  for (const auto kernel : {sum, mean, amax}) {
    kernel(kContext, x.view, std::span(&dim, 1), false, result.view);
    EXPECT_TRUE(std::isnan(result.view.ptr<float>()[0]));
    EXPECT_TRUE(std::isfinite(result.view.ptr<float>()[1]));
    EXPECT_EQ(result.view.ptr<float>()[2], kInfinity);
  }
}

TEST_P(EveryTarget, ANanOrInfinityOfAShortRowIsItsOwn) {
  for (const int64_t length : {2, 3, 5, 8}) {
    for (const bool rows : {true, false}) {
      Buffer x =
          testing::random_normal(rows ? std::vector<int64_t>{700, length} : std::vector<int64_t>{length, 700}, DType::float32);
      const int64_t row = rows ? length : 1, next = rows ? 1 : 700, dim = rows ? 1 : 0;
      x.view.ptr<float>()[57 * row + next] = std::nanf("");
      x.view.ptr<float>()[203 * row] = static_cast<float>(kInfinity);
      Buffer result = testing::poisoned({700}, DType::float32);
      for (const auto kernel : {sum, mean, amax}) {
        kernel(kContext, x.view, std::span(&dim, 1), false, result.view);
        for (int64_t i = 0; i < 700; ++i) {
          EXPECT_EQ(std::isnan(result.view.ptr<float>()[i]), i == 57);
          EXPECT_EQ(std::isinf(result.view.ptr<float>()[i]), i == 203);
        }
      }
    }
  }
}

TEST_P(EveryTarget, RowKernelsEqualLoops) {
  using Function = std::function<Row(const Row&, const Row&)>;
  const auto exponentials = [](const Row& x) {
    Row e;
    const double top = x.empty() ? 0 : *std::max_element(x.begin(), x.end());
    for (double v : x) e.push_back(std::exp(v - top));
    return e;
  };
  const auto total = [](const Row& x) {
    double s = 0;
    for (double v : x) s += v;
    return s;
  };
  struct Case {
    const char* name;
    void (*unary)(const Context&, const View&, int64_t, const View&);
    void (*binary)(const Context&, const View&, const View&, int64_t, const View&);
    Function of;
  };
  const Case cases[] = {
      {"softmax", softmax, nullptr,
       [&](const Row& x, const Row&) {
         Row e = exponentials(x);
         const double s = total(e);
         for (double& v : e) v /= s;
         return e;
       }},
      {"log_softmax", log_softmax, nullptr,
       [&](const Row& x, const Row&) {
         Row y = x;
         const double s = total(exponentials(x)), top = x.empty() ? 0 : *std::max_element(x.begin(), x.end());
         for (double& v : y) v = v - top - std::log(s);
         return y;
       }},
      {"softmax_backward", nullptr, softmax_backward,
       [&](const Row& g, const Row& y) {
         double dot = 0;
         for (size_t i = 0; i < g.size(); ++i) dot += g[i] * y[i];
         Row x;
         for (size_t i = 0; i < g.size(); ++i) x.push_back(y[i] * (g[i] - dot));
         return x;
       }},
      {"log_softmax_backward", nullptr, log_softmax_backward,
       [&](const Row& g, const Row& y) {
         const double sum = total(g);
         Row x;
         for (size_t i = 0; i < g.size(); ++i) x.push_back(g[i] - std::exp(y[i]) * sum);
         return x;
       }},
  };
  for (int round = 0; round < 12; ++round) {
    for (const Case& c : cases) {
      const DType dtype = random_floating();
      std::vector<int64_t> sizes = random_sizes();
      const Buffer x = random_view(sizes, dtype),
                   second = random_view(std::vector<int64_t>(x.view.sizes, x.view.sizes + x.view.ndim), dtype);
      const int64_t dim = x.view.ndim > 0 ? below(x.view.ndim) : 0;
      if (!std::equal(x.view.sizes, x.view.sizes + x.view.ndim, second.view.sizes)) continue;
      const std::vector<Row> rows = rows_of(x.view, {dim}), others = rows_of(second.view, {dim});
      std::vector<Row> want;
      double scale = 1;
      for (size_t r = 0; r < rows.size(); ++r) {
        want.push_back(c.of(rows[r], others[r]));
        for (double v : want.back()) scale = std::max(scale, std::abs(v));
      }
      Buffer result = testing::poisoned(std::vector<int64_t>(x.view.sizes, x.view.sizes + x.view.ndim), dtype);
      SCOPED_TRACE(::testing::Message() << c.name << " " << name(dtype) << " sizes " << ::testing::PrintToString(sizes) << " dim "
                                        << dim);
      if (c.unary)
        c.unary(kContext, x.view, dim, result.view);
      else
        c.binary(kContext, x.view, second.view, dim, result.view);
      testing::expect_close(result.view, x.view.ndim == 0 ? want[0] : along(x.view, dim, want),
                            (dtype == DType::float64 ? 64 : 8) * rounding(dtype),
                            c.binary ? scale * std::sqrt(static_cast<double>(rows.empty() ? 1 : rows[0].size() + 1))
                            : c.name[0] == 's'
                                ? (dtype == DType::float16 ? 6e-5 : 1e-300)
                                : 1);  // float16: below 6e-5 it is subnormal; float64: the reference rounds as well
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(EveryTarget, SoftmaxGradientsOfColumnsOfHalvesAreThoseOfFloatsRoundedOnce) {
  const std::vector<int64_t> shapes[] = {{1, 16}, {63, 37}, {130, 300}, {3, 65, 45}, {1100, 150}};
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    for (const std::vector<int64_t>& sizes : shapes) {
      const int64_t dim = static_cast<int64_t>(sizes.size()) - 2;
      const Buffer grad = testing::random_normal(sizes, dtype), y = testing::random_normal(sizes, dtype);
      const Buffer wide_grad(sizes, DType::float32), wide_y(sizes, DType::float32), wide(sizes, DType::float32);
      copy(kContext, grad.view, wide_grad.view);
      copy(kContext, y.view, wide_y.view);
      for (const auto gradient : {softmax_backward, log_softmax_backward}) {
        const Buffer result = testing::poisoned(sizes, dtype), want(sizes, dtype);
        gradient(kContext, wide_grad.view, wide_y.view, dim, wide.view);
        copy(kContext, wide.view, want.view);
        gradient(kContext, grad.view, y.view, dim, result.view);
        EXPECT_EQ(testing::bytes(result), testing::bytes(want)) << name(dtype) << ::testing::PrintToString(sizes);
        gradient(kContext, grad.view, wide_y.view, dim, result.view);  // of two types
        EXPECT_EQ(testing::bytes(result), testing::bytes(want)) << name(dtype) << ::testing::PrintToString(sizes);
      }
    }
  }
}

TEST_P(EveryTarget, SoftmaxOfExtremeRows) {
  Buffer x({4, 3}, DType::float32), y = testing::poisoned({4, 3}, DType::float32), l = testing::poisoned({4}, DType::float32);
  const float inf = static_cast<float>(kInfinity);
  const float values[] = {-inf, 0, -inf, -inf, -inf, -inf, 1e30f, -1e30f, 1e30f, inf, 0, 1};
  std::copy_n(values, 12, x.view.ptr<float>());
  softmax(kContext, x.view, 1, y.view);
  logsumexp(kContext, x.view, 1, false, l.view);
  const std::vector<double> got = testing::values(y.view), log_sums = testing::values(l.view);
  EXPECT_EQ((Row{got.begin(), got.begin() + 3}), (Row{0, 1, 0}));
  EXPECT_TRUE(std::isnan(got[3]) && std::isnan(got[4]));
  EXPECT_EQ((Row{got.begin() + 6, got.begin() + 9}), (Row{0.5, 0, 0.5}));
  EXPECT_TRUE(std::isnan(got[9]));
  EXPECT_EQ(log_sums[0], 0);
  EXPECT_EQ(log_sums[1], -kInfinity);
  EXPECT_EQ(static_cast<float>(log_sums[2]), 1e30f);
  EXPECT_EQ(log_sums[3], kInfinity);
}

TEST_P(EveryTarget, LogsumexpOfExtremeColumns) {
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16}) {
    const Buffer x({3, 40}, dtype), y = testing::poisoned({40}, dtype);
    for (int64_t i = 0; i < 120; ++i) {
      const int64_t row = i / 40, column = i % 40;
      const double of_row[] = {-INFINITY, row == 1 ? INFINITY : 1000, row == 2 ? NAN : 2, row == 0 ? 5 : -INFINITY, 1000};
      testing::store(x.view.data, dtype, i, of_row[column % 5]);
    }
    logsumexp(kContext, x.view, 0, false, y.view);
    const std::vector<double> got = testing::values(y.view);
    for (size_t column = 0; column < 40; column += 5) {
      EXPECT_EQ(got[column], -INFINITY);
      EXPECT_EQ(got[column + 1], INFINITY);
      EXPECT_TRUE(std::isnan(got[column + 2]));
      EXPECT_EQ(got[column + 3], 5);
      EXPECT_NEAR(got[column + 4], 1000 + std::log(3.0), 4000 * rounding(dtype));
    }
  }
}

TEST_P(EveryTarget, LogsumexpCumsumAndPositionsEqualLoops) {
  for (int round = 0; round < 25; ++round) {
    const DType dtype = random_floating();
    const Buffer x = random_view(random_sizes(), dtype);
    const int64_t dim = x.view.ndim > 0 ? below(x.view.ndim) : 0;
    const std::vector<Row> rows = rows_of(x.view, {dim});
    const std::vector<int64_t> sizes(x.view.sizes, x.view.sizes + x.view.ndim);
    SCOPED_TRACE(::testing::Message() << name(dtype) << " sizes " << ::testing::PrintToString(sizes) << " dim " << dim);
    const int64_t count = static_cast<int64_t>(rows.size());
    std::vector<double> log_sums, largest, smallest, where_largest, where_smallest;
    std::vector<Row> sums;
    double magnitude = 1;
    for (const Row& row : rows) {
      double s = 0, total = 0;
      for (double v : row) total += std::abs(v);
      if (dtype == DType::float64) magnitude = std::max(magnitude, total);  // every addition is rounded, in another order
      for (double v : row) s += std::exp(v);
      log_sums.push_back(std::log(s));
      sums.push_back(row);
      for (size_t i = row.size(); i-- > 1;) sums.back()[i - 1] += sums.back()[i];
      if (row.empty()) continue;
      where_largest.push_back(static_cast<double>(std::max_element(row.begin(), row.end()) - row.begin()));
      where_smallest.push_back(static_cast<double>(std::min_element(row.begin(), row.end()) - row.begin()));
      largest.push_back(*std::max_element(row.begin(), row.end()));
      smallest.push_back(*std::min_element(row.begin(), row.end()));
    }
    Buffer one = testing::poisoned({count}, dtype), all = testing::poisoned(sizes, dtype),
           at = testing::poisoned({count}, DType::int64);
    logsumexp(kContext, x.view, dim, false, one.view);
    testing::expect_close(one.view, log_sums, 4 * rounding(dtype));
    cumsum(kContext, x.view, dim, true, all.view);
    testing::expect_close(all.view, x.view.ndim == 0 ? sums[0] : along(x.view, dim, sums), 2 * rounding(dtype), magnitude);
    if (largest.size() != rows.size()) continue;
    max(kContext, x.view, dim, false, one.view, at.view);
    EXPECT_EQ(testing::values(one.view), largest);
    EXPECT_EQ(testing::values(at.view), where_largest);
    min(kContext, x.view, dim, false, one.view, at.view);
    EXPECT_EQ(testing::values(one.view), smallest);
    EXPECT_EQ(testing::values(at.view), where_smallest);
    argmax(kContext, x.view, dim, false, at.view);
    EXPECT_EQ(testing::values(at.view), where_largest);
    argmin(kContext, x.view, dim, false, at.view);
    EXPECT_EQ(testing::values(at.view), where_smallest);
    if (HasFailure()) return;
  }
}

TEST_P(EveryTarget, RunningSumsTakeInfinitiesAndWhatLeavesTheRange) {
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16}) {
    for (const int64_t dim : {0, 1}) {
      const double infinity = kInfinity, large = dtype == DType::float64 ? 1.7e308 : 3e38;
      const Buffer x({3, 3}, dtype), sums = testing::poisoned({3, 3}, dtype);
      const double lines[3][3] = {{1, infinity, 2}, {large, large, 1}, {5, -infinity, infinity}};
      for (int64_t i = 0; i < 3; ++i) {
        for (int64_t j = 0; j < 3; ++j) testing::store(x.view.data, dtype, dim == 1 ? 3 * i + j : 3 * j + i, lines[i][j]);
      }
      cumsum(kContext, x.view, dim, false, sums.view);
      const Row got = testing::values(sums.view);
      const auto at = [&](int64_t i, int64_t j) { return got[static_cast<size_t>(dim == 1 ? 3 * i + j : 3 * j + i)]; };
      SCOPED_TRACE(::testing::Message() << name(dtype) << " dim " << dim);
      EXPECT_EQ(at(0, 1), infinity);
      EXPECT_EQ(at(0, 2), infinity);
      EXPECT_EQ(at(1, 1), infinity);
      EXPECT_EQ(at(2, 1), -infinity);
      EXPECT_TRUE(std::isnan(at(2, 2)));
    }
  }
}

// More rows than are widened at a time, and a strip that is not full.
TEST_P(EveryTarget, ColumnsOfNarrowTypesAreWidened) {
  for (const DType dtype : {DType::bfloat16, DType::float16, DType::int32, DType::uint8}) {
    for (const auto& sizes : {std::vector<int64_t>{700, 530}, {3, 301, 17}, {129, 2, 40}}) {
      const Buffer x = testing::random_integers(sizes, dtype, 0, 200);
      const std::vector<int64_t> dims = {x.view.ndim == 3 ? int64_t{1} : int64_t{0}};
      const std::vector<Row> rows = rows_of(x.view, dims);
      Row want;
      for (const Row& row : rows) want.push_back(std::accumulate(row.begin(), row.end(), 0.0));
      const Buffer result =
          testing::poisoned({static_cast<int64_t>(rows.size())}, is_floating(dtype) ? DType::float32 : DType::int64);
      sum(kContext, x.view, Dims(dims), false, result.view);
      SCOPED_TRACE(name(dtype));
      testing::expect_close(result.view, want, 0);
    }
  }
}

// With none, one and two zeros, infinities and elements whose products leave the dtype's range on their way.
TEST_P(EveryTarget, ProductsOfOthersEqualLoops) {
  for (int round = 0; round < 40; ++round) {
    const DType dtype = random_floating();
    const std::vector<int64_t> sizes = std::vector<std::vector<int64_t>>{
        {3, 40}, {40, 3}, {1, 1}, {70, 5}, {5, 70}, {2, 33, 4}, {0, 3}, {3, 0}}[static_cast<size_t>(below(8))];
    const Buffer x = random_view(sizes, dtype), result = testing::poisoned({x.view.sizes, x.view.sizes + x.view.ndim}, dtype);
    for (int64_t i = 0; i < x.view.numel(); ++i) {
      const double value = testing::load(x.view.data, dtype, i), large = dtype == DType::float16 ? 64 : 1e30;
      const int64_t kind = below(60);
      testing::store(x.view.data, dtype, i,
                     kind == 0                     ? 0
                     : kind == 1 && round % 3 == 0 ? kInfinity
                     : kind < 6                    ? large
                     : kind < 10                   ? 1 / large
                                                   : 1 + value / 9);
    }
    const int64_t dim = below(x.view.ndim);
    std::vector<Row> want;
    for (const Row& row : rows_of(x.view, {dim})) {
      want.emplace_back();
      for (size_t i = 0; i < row.size(); ++i) {
        long double product = 1;
        for (size_t k = 0; k < row.size(); ++k) product *= k == i ? 1 : static_cast<long double>(row[k]);
        want.back().push_back(static_cast<double>(product));
      }
    }
    SCOPED_TRACE(::testing::Message() << name(dtype) << " sizes " << ::testing::PrintToString(sizes) << " dim " << dim);
    others_of_rows(kContext, x.view, std::span(&dim, 1), result.view);
    const Row got = testing::values(result.view), expected = along(x.view, dim, want);
    for (size_t i = 0; i < got.size(); ++i) {
      if (std::isnan(expected[i])) {
        EXPECT_TRUE(std::isnan(got[i])) << i;
        continue;
      }
      const Buffer rounded({1}, dtype);
      testing::store(rounded.view.data, dtype, 0, expected[i]);
      const double wanted = testing::values(rounded.view)[0], least = dtype == DType::float64   ? 1e-300
                                                                      : dtype == DType::float16 ? 6e-5
                                                                                                : 1e-37;
      if (wanted == got[i]) continue;
      EXPECT_TRUE(std::isfinite(wanted)) << i << ": " << got[i] << " for " << wanted;
      EXPECT_NEAR(got[i], wanted, (dtype == DType::float64 ? 80 : 1) * rounding(dtype) * std::max(std::abs(wanted), least)) << i;
    }
    if (HasFailure()) return;
  }
}

// Rows of any length, along either dim, of usual elements and of tiny and huge ones whose product leaves the range of double on
// its way, of zeros, infinities and NaN.
TEST_P(EveryTarget, ProductsEqualLoops) {
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::float16}) {
    for (const int64_t n : {1, 3, 4, 7, 8, 15, 25, 31, 32, 33, 63, 64, 95, 100, 127, 128, 129, 200, 255, 256, 300, 1030, 5000}) {
      for (const int64_t dim : {0, 1}) {
        const std::vector<int64_t> sizes = dim == 0 ? std::vector<int64_t>{n, 17} : std::vector<int64_t>{17, n};
        const Buffer x = testing::random_normal(sizes, dtype), result = testing::poisoned({17}, dtype);
        for (int64_t row = 0; row < 17; ++row) {
          const int64_t kind = row % 6;
          const auto put = [&](int64_t i, double value) {
            testing::store(x.view.data, dtype, dim == 0 ? i * 17 + row : row * n + i, value);
          };
          const double huge = dtype == DType::float64 ? 1e200 : dtype == DType::float16 ? 3e4 : 1e30;
          const double tiny = dtype == DType::float64 ? 1e-310 : dtype == DType::float16 ? 1e-7 : 1e-40;
          for (int64_t i = 0; i < n && kind > 0; ++i) {
            if (kind <= 3) put(i, 1 + 0.25 * static_cast<double>(below(9) - 4) / static_cast<double>(n));
            if (kind == 2 && i + 1 < n) put(i, i % 8 < 4 ? huge : 1 / huge);
            if (kind == 3 && below(4) == 0) put(i, tiny);
          }
          if (kind == 4) put(below(n), below(2) ? 0 : kInfinity);
          if (kind == 5) put(below(n), std::nan(""));
        }
        prod(kContext, x.view, std::span(&dim, 1), false, result.view);
        const std::vector<Row> rows = rows_of(x.view, {dim});
        SCOPED_TRACE(::testing::Message() << name(dtype) << " of " << n << " along " << dim);
        for (int64_t row = 0; row < 17; ++row) {
          long double mantissa = 1;
          int64_t exponent = 0;
          for (const double value : rows[static_cast<size_t>(row)]) {
            int own = 0;
            mantissa = std::frexp(mantissa * static_cast<long double>(value), &own);
            if (std::isfinite(mantissa) && mantissa != 0) exponent += own;
          }
          const Buffer want({1}, dtype);
          testing::store(want.view.data, dtype, 0,
                         static_cast<double>(std::ldexp(mantissa, static_cast<int>(std::clamp<int64_t>(exponent, -9000, 9000)))));
          const double wanted = testing::values(want.view)[0], got = testing::load(result.view.data, dtype, row);
          const double bound =
              static_cast<double>(n + 4) * (dtype == DType::float64 ? 0x1p-53 : 0) + 2 * rounding(dtype);  // of both
          const double least = dtype == DType::float64 ? 0x1p-1022 : dtype == DType::float16 ? 0x1p-14 : 0x1p-126;
          if (got == wanted || (std::isnan(got) && std::isnan(wanted))) continue;
          if (std::isinf(wanted))  // which every number is near to
            EXPECT_EQ(got, wanted) << row;
          else
            EXPECT_NEAR(got, wanted, bound * std::max(std::abs(wanted), least)) << row;
        }
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(EveryTarget, SumsOfProductsEqualLoops) {
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::float16}) {
    for (const int64_t n : {0, 1, 15, 100, 4097, 200'003}) {
      const Buffer x = testing::random_normal({n}, dtype), y = testing::random_normal({n}, dtype),
                   result = testing::poisoned({}, dtype);
      const Row a = testing::values(x.view), b = testing::values(y.view);
      double want = 0, magnitude = 1;
      for (size_t i = 0; i < a.size(); ++i) want += a[i] * b[i], magnitude += std::abs(a[i] * b[i]);
      sum_of_products(kContext, x.view, y.view, result.view);
      SCOPED_TRACE(::testing::Message() << name(dtype) << " " << n);
      testing::expect_close(result.view, {want}, dtype == DType::float64 ? 1e-14 : rounding(DType::float32),
                            magnitude + std::abs(want) * rounding(dtype) / rounding(DType::float32));
    }
  }
}

// Products modulo the range of the dtype, their sum modulo 2^64.
template <typename T>
void expect_exact_sums_of_products() {
  for (const int64_t n : {0, 1, 7, 31, 64, 100, 4097, 200'003}) {
    Buffer x({n}, dtype_of<T>), y({n}, dtype_of<T>);
    uint64_t want = 0;
    for (int64_t i = 0; i < n; ++i) {
      T &a = x.view.ptr<T>()[i], &b = y.view.ptr<T>()[i];
      a = static_cast<T>(testing::engine()()), b = static_cast<T>(testing::engine()());
      want += static_cast<uint64_t>(int64_t{static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b))});
    }
    const Buffer result = testing::poisoned({}, DType::int64);
    sum_of_products(kContext, x.view, y.view, result.view);
    EXPECT_EQ(static_cast<uint64_t>(result.view.ptr<int64_t>()[0]), want) << name(dtype_of<T>) << " " << n;
  }
}

TEST_P(EveryTarget, SumsOfProductsOfIntegersWrapAround) {
  expect_exact_sums_of_products<int64_t>();
  expect_exact_sums_of_products<int32_t>();
  expect_exact_sums_of_products<uint8_t>();
}

TEST_P(EveryTarget, SumsOfProductsThatLeaveFloatOnTheWayComeBack) {
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    for (const int64_t n : {7, 256, 200'003}) {
      const Buffer x = testing::poisoned({n}, dtype), y = testing::poisoned({n}, dtype), result = testing::poisoned({}, dtype);
      const auto put = [&](const Buffer& of, int64_t i, double value) { testing::store(of.view.data, dtype, i, value); };
      const auto product = [&] {
        sum_of_products(kContext, x.view, y.view, result.view);
        return testing::values(result.view)[0];
      };
      for (int64_t i = 0; i < n; ++i) put(x, i, 0), put(y, i, 1);
      const double bound = 1.2e39 * 11 * 0x1p-23;  // roundings of what cancels
      put(x, 0, 3e38), put(x, n / 4, 3e38), put(x, n / 2, -3e38), put(x, n - 1, -3e38);
      EXPECT_NEAR(product(), 0, bound) << n;
      for (int64_t i = 0; i < n; ++i) put(y, i, 16);  // as do products
      EXPECT_NEAR(product(), 0, 16 * bound) << n;
      put(x, n / 2, 3e38);
      EXPECT_EQ(product(), INFINITY) << n;
      put(y, n / 2, 0), put(x, n / 2, INFINITY);
      EXPECT_TRUE(std::isnan(product())) << n;
    }
  }
}

TEST_P(EveryTarget, ANanOfHalvesWinsWhereverItStands) {
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    for (const int64_t at : {0, 17, 63, 64, 99}) {
      for (const int64_t columns : {1, 20}) {
        const Buffer x = testing::random_normal({100, columns}, dtype), result = testing::poisoned({columns}, dtype);
        testing::store(x.view.data, dtype, at * columns + columns / 2, std::nan(""));
        for (const auto kernel : {sum, amax, amin}) {
          const int64_t dim = 0;
          kernel(kContext, x.view, std::span(&dim, 1), false, result.view);
          const Row got = testing::values(result.view);
          for (int64_t c = 0; c < columns; ++c) EXPECT_EQ(std::isnan(got[static_cast<size_t>(c)]), c == columns / 2) << at;
        }
      }
    }
  }
}

// Of every length that vectors leave something of, and of several blocks and pieces, along rows and columns, up to the limits:
// sums leave int32 and wrap around in int64, extrema are exact.
TEST_P(EveryTarget, FoldsOfIntegersOfAnySizeAreExact) {
  const auto any = [](DType dtype) {
    const auto bits = static_cast<int64_t>(testing::engine()());
    if (below(8) == 0) return dtype == DType::int32 ? (below(2) ? INT64_C(-2147483648) : INT64_C(2147483647)) : bits;
    return dtype == DType::int32 ? int64_t{static_cast<int32_t>(bits)} : dtype == DType::uint8 ? bits & 255 : bits;
  };
  for (const DType dtype : {DType::int32, DType::int64, DType::uint8}) {
    for (const int64_t n : {1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 130, 1000, 140'001}) {
      for (const int64_t others : {1, 3, 21}) {
        if (n * others > 500'000) continue;
        for (const int64_t dim : {0, 1}) {
          Buffer x({dim == 0 ? n : others, dim == 0 ? others : n}, dtype);
          std::vector<uint64_t> sums(static_cast<size_t>(others)), factors(static_cast<size_t>(others), 1);
          std::vector<int64_t> most(static_cast<size_t>(others), INT64_MIN), least(static_cast<size_t>(others), INT64_MAX);
          for (int64_t i = 0; i < n * others; ++i) {
            const int64_t value = any(dtype);
            const auto row = static_cast<size_t>(dim == 0 ? i % others : i / n);
            visit(dtype, [&]<typename T>(TypeTag<T>) {
              if constexpr (std::is_integral_v<T>) x.view.ptr<T>()[i] = static_cast<T>(value);
            });
            const int64_t kept = dtype == DType::uint8 ? value & 255 : value;
            sums[row] += static_cast<uint64_t>(kept), factors[row] *= static_cast<uint64_t>(kept);
            most[row] = std::max(most[row], kept), least[row] = std::min(least[row], kept);
          }
          const auto folded = [&](auto kernel) {
            Buffer result = testing::poisoned({others}, DType::int64);
            kernel(kContext, x.view, std::span(&dim, 1), false, result.view);
            return std::vector<int64_t>(result.view.ptr<int64_t>(), result.view.ptr<int64_t>() + others);
          };
          SCOPED_TRACE(::testing::Message() << name(dtype) << " " << n << " x " << others << " along " << dim);
          EXPECT_EQ(folded(amax), most);
          EXPECT_EQ(folded(amin), least);
          EXPECT_EQ(folded(sum), std::vector<int64_t>(sums.begin(), sums.end()));
          EXPECT_EQ(folded(prod), std::vector<int64_t>(factors.begin(), factors.end()));
          if (HasFailure()) return;
        }
      }
    }
  }
}

// Equal elements, and NaN here and there, in rows of less than a vector up to some blocks of them, with ends of any length.
TEST_P(EveryTarget, PositionsAreThoseOfTheFirstOfEqualElementsAndOfTheFirstNan) {
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::int64, DType::int32}) {
    for (const int64_t n : {1, 2, 7, 8, 9, 15, 16, 17, 33, 100, 511, 513, 1025, 1500, 5003}) {
      const Buffer x = testing::random_integers({9, n}, dtype, -2, 2);
      testing::store(x.view.data, dtype, 2 * n + below(n), 3);
      testing::store(x.view.data, dtype, 3 * n + below(n), -3);
      for (int64_t row = 4; row < 9 && is_floating(dtype); ++row) {
        for (int64_t count = below(3); count >= 0; --count) testing::store(x.view.data, dtype, row * n + below(n), std::nan(""));
      }
      std::vector<double> largest, smallest;
      for (const Row& row : rows_of(x.view, {1})) {
        const auto nan = std::find_if(row.begin(), row.end(), [](double value) { return std::isnan(value); });
        const auto place = [&](auto at) { return static_cast<double>((nan != row.end() ? nan : at) - row.begin()); };
        largest.push_back(place(std::max_element(row.begin(), row.end())));
        smallest.push_back(place(std::min_element(row.begin(), row.end())));
      }
      const Buffer at = testing::poisoned({9}, DType::int64), one = testing::poisoned({9}, dtype);
      SCOPED_TRACE(::testing::Message() << name(dtype) << " " << n);
      argmax(kContext, x.view, 1, false, at.view);
      EXPECT_EQ(testing::values(at.view), largest);
      argmin(kContext, x.view, 1, false, at.view);
      EXPECT_EQ(testing::values(at.view), smallest);
      max(kContext, x.view, 1, false, one.view, at.view);
      EXPECT_EQ(testing::values(at.view), largest);
      for (int64_t row = 0; row < 9; ++row) {
        const double want = testing::load(x.view.data, dtype, row * n + static_cast<int64_t>(largest[static_cast<size_t>(row)])),
                     got = testing::load(one.view.data, dtype, row);
        EXPECT_TRUE(got == want || (std::isnan(got) && std::isnan(want))) << row;
      }
      if (HasFailure()) return;
    }
  }
}

TEST(ReduceKernels, ResultsDoNotDependOnTheNumberOfThreads) {
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{300'003}, {2000, 100}, {100, 2000}, {3, 40000, 2}}) {
    const Buffer x = testing::random_normal(sizes, DType::float32);
    for (const auto kernel : {sum, mean, amax}) {
      for (int64_t dim = 0; dim < x.view.ndim; ++dim) {
        const std::vector<Row> rows = rows_of(x.view, {dim});
        testing::expect_same_for_thread_counts([&] {
          const Buffer result = testing::poisoned({static_cast<int64_t>(rows.size())}, DType::float32);
          kernel(kContext, x.view, std::span(&dim, 1), false, result.view);
          return testing::bytes(result);
        });
      }
    }
  }
}

TEST(ReduceKernels, LongRowsAreCutForThreadsAndStayWhole) {
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::int64}) {
    const Buffer x =
        is_floating(dtype) ? testing::random_normal({2, 100'001}, dtype) : testing::random_integers({2, 100'001}, dtype, -50, 50);
    if (is_floating(dtype)) testing::store(x.view.data, dtype, 70'000, std::nan(""));  // in the third piece of the first row
    const std::vector<Row> rows = rows_of(x.view, {1});
    const Buffer whole = testing::poisoned({1}, DType::int64), each = testing::poisoned({2}, DType::int64),
                 sums = testing::poisoned({2, 100'001}, dtype);
    testing::expect_same_for_thread_counts([&] {
      argmax(kContext, x.view, std::nullopt, false, whole.view);
      argmin(kContext, x.view, 1, false, each.view);
      cumsum(kContext, x.view, 1, true, sums.view);
      return testing::bytes(whole, each, sums);
    });
    const auto first_of = [](const Row& row, auto best) {
      for (size_t i = 0; i < row.size(); ++i)
        if (std::isnan(row[i])) return static_cast<double>(i);
      return static_cast<double>(best(row.begin(), row.end()) - row.begin());
    };
    const auto smallest = [](auto begin, auto end) { return std::min_element(begin, end); };
    EXPECT_EQ(testing::values(each.view), (Row{first_of(rows[0], smallest), first_of(rows[1], smallest)}));
    const Row all = testing::values(x.view);
    EXPECT_EQ(testing::values(whole.view)[0], first_of(all, [](auto begin, auto end) { return std::max_element(begin, end); }));
    std::vector<double> want;
    for (const Row& row : rows) {
      Row running = row;
      for (size_t i = row.size(); i-- > 1;) running[i - 1] += running[i];
      want.insert(want.end(), running.begin(), running.end());
    }
    testing::expect_close(sums.view, want, is_floating(dtype) ? 2 * rounding(dtype) : 0,
                          dtype == DType::float64 ? 100'001 : 1000);
  }
}

TEST(ReduceKernels, TheFirstOfEqualElementsAndTheFirstNanAreTaken) {
  Buffer x({2, 4}, DType::float32), at = testing::poisoned({2}, DType::int64);
  const float values[] = {1, 3, 3, 2, 5, std::nanf(""), 7, std::nanf("")};
  std::copy_n(values, 8, x.view.ptr<float>());
  argmax(kContext, x.view, 1, false, at.view);
  EXPECT_EQ(testing::values(at.view), (Row{1, 1}));
  Buffer whole = testing::poisoned({1}, DType::int64);
  argmin(kContext, x.view, std::nullopt, false, whole.view);
  EXPECT_EQ(testing::values(whole.view), (Row{5}));
}

}  // namespace
}  // namespace deckle::kernels::cpu
