// Norm, variance and standard deviation against their definitions in float64: any dims, strides, dtypes, threads; extreme
// elements.
#include "tests/kernels/cpu/reduce/operands.h"
#include "tests/kernels/cpu/support/magnitudes.h"
#include "tests/kernels/cpu/support/threads.h"

namespace deckle::kernels::cpu {

void euclidean_norm(const Context&, const View&, Dims, bool, const View&);
void variance(const Context&, const View&, Dims, int64_t, bool, const View&);
void standard_deviation(const Context&, const View&, Dims, int64_t, bool, const View&);
void deviations_of_rows(const Context&, const View&, const View&, const View&, Dims, const View&);

namespace {

using SpreadOnEveryTarget = EveryTarget;
INSTANTIATE_TEST_SUITE_P(, SpreadOnEveryTarget, ::testing::ValuesIn(simd::usable_targets()),
                         [](const auto& info) { return std::string(hwy::TargetName(info.param)); });

double squares(const Row& x, double centre) {
  double sum = 0;
  for (const double value : x) sum += (value - centre) * (value - centre);
  return sum;
}

double mean(const Row& x) {
  double sum = 0;
  for (const double value : x) sum += value;
  return sum / static_cast<double>(x.size());
}

TEST_P(SpreadOnEveryTarget, EqualsTheDefinition) {
  for (int round = 0; round < 40; ++round) {
    const DType dtype = random_floating();
    const Buffer x = random_view(random_sizes(), dtype);
    const double centre = std::array{0.0, 100.0}[static_cast<size_t>(below(2))];  // a mean that is large beside the spread
    for (int64_t i = 0; i < x.view.numel(); ++i)
      testing::store(x.view.data, dtype, i, testing::load(x.view.data, dtype, i) + centre);
    const std::vector<int64_t> dims = random_dims(x.view.ndim);
    const int64_t correction = below(2);
    std::vector<double> norms, variances, deviations;
    for (const Row& row : rows_of(x.view, dims)) {
      norms.push_back(std::sqrt(squares(row, 0)));
      variances.push_back(squares(row, mean(row)) /
                          std::max(0.0, static_cast<double>(row.size()) - static_cast<double>(correction)));
      deviations.push_back(std::sqrt(variances.back()));
    }
    SCOPED_TRACE(::testing::Message() << name(dtype) << " sizes "
                                      << ::testing::PrintToString(std::vector<int64_t>(x.view.sizes, x.view.sizes + x.view.ndim))
                                      << " dims " << ::testing::PrintToString(dims) << " correction " << correction);
    const Dims wanted = dims.empty() ? Dims() : Dims(dims);
    // Everything is double until it is stored: one rounding; among doubles the reference rounds as well, and differences of
    // elements near 100 carry what the mean lacks.
    const double tolerance = dtype == DType::float64 ? 1e-11 : rounding(dtype);
    const Buffer result = testing::poisoned({static_cast<int64_t>(norms.size())}, dtype);
    euclidean_norm(kContext, x.view, wanted, false, result.view);
    testing::expect_close(result.view, norms, tolerance, 1e-300);
    variance(kContext, x.view, wanted, correction, false, result.view);
    testing::expect_close(result.view, variances, tolerance, dtype == DType::float16 ? 0x1.1p-14 : 1e-3);
    standard_deviation(kContext, x.view, wanted, correction, false, result.view);
    testing::expect_close(result.view, deviations, tolerance, dtype == DType::float16 ? 0x1.1p-14 : 1e-3);
    if (HasFatalFailure()) return;
  }
}

// With quotients of factor and divisor that are usual, and so small or large that elements are divided; without a divisor.
TEST_P(SpreadOnEveryTarget, ScaledDeviationsEqualTheDefinition) {
  for (int round = 0; round < 60; ++round) {
    const DType dtype = random_floating(), wide = dtype == DType::float64 ? dtype : DType::float32;
    const Buffer x = random_view(random_sizes(), dtype);
    const double centre = std::array{0.0, 1000.0}[static_cast<size_t>(below(2))];
    for (int64_t i = 0; i < x.view.numel(); ++i)
      testing::store(x.view.data, dtype, i, testing::load(x.view.data, dtype, i) + centre);
    std::vector<int64_t> dims = random_dims(x.view.ndim);
    const std::vector<int64_t> sizes(x.view.sizes, x.view.sizes + x.view.ndim);
    const std::vector<Row> rows = rows_of(x.view, dims);
    const auto count = static_cast<int64_t>(rows.size());
    const Buffer factor = testing::random_normal({count}, wide), divisor = testing::random_normal({count}, wide);
    for (int64_t r = 0; r < count; ++r) {
      const int64_t kind = below(8);  // of floats 2^-140 and 2^140, of doubles beyond their range
      const double power = std::ldexp(1.0, wide == DType::float64 ? 800 : 70);
      if (kind == 0) testing::store(divisor.view.data, wide, r, kInfinity);
      if (kind > 2) continue;
      testing::store(factor.view.data, wide, r, kind == 1 ? power : 1 / power);
      if (kind > 0) testing::store(divisor.view.data, wide, r, kind == 1 ? 1 / power : power);
    }
    const bool divides = below(2) == 0;
    const double most_stored = dtype == DType::float64 ? 1e300 : dtype == DType::float16 ? 6e4 : 3e38;
    const Buffer result = testing::poisoned(sizes, dtype);
    deviations_of_rows(kContext, x.view, divides ? divisor.view : View(), factor.view, dims.empty() ? Dims() : Dims(dims),
                       result.view);
    SCOPED_TRACE(::testing::Message() << name(dtype) << " sizes " << ::testing::PrintToString(sizes) << " dims "
                                      << ::testing::PrintToString(dims) << " centre " << centre << " divides " << divides);
    const std::vector<Row> got = rows_of(result.view, dims);
    for (size_t r = 0; r < rows.size(); ++r) {
      const double scale = testing::load(factor.view.data, wide, static_cast<int64_t>(r)) /
                           (divides ? testing::load(divisor.view.data, wide, static_cast<int64_t>(r)) : 1);
      long double middle = 0;  // from the first element: differences of doubles near 1000 are exact
      for (const double value : rows[r]) middle += value - rows[r][0];
      middle /= static_cast<long double>(rows[r].size());
      const auto deviation = [&](double value) { return static_cast<double>(value - rows[r][0] - middle); };
      double most = 0;
      for (const double value : rows[r]) most = std::max(most, std::abs(deviation(value)));
      const double bound = (most + 1e-30) * std::abs(scale) * rounding(dtype) * 4 + (dtype == DType::float16 ? 6e-8 : 1e-37);
      for (size_t i = 0; i < rows[r].size(); ++i) {
        const double expected = deviation(rows[r][i]) * scale;
        if (std::abs(expected) < most_stored) ASSERT_NEAR(got[r][i], expected, bound) << "row " << r;
      }
    }
  }
}

TEST(Spread, SquaresBeyondTheDtypeAreNoMatter) {
  const Buffer large({1, 5}, DType::float16), result = testing::poisoned({1}, DType::float16);
  for (int64_t i = 0; i < 5; ++i) testing::store(large.view.data, DType::float16, i, i % 2 == 0 ? 300 : -300);
  const int64_t dim = 1;
  euclidean_norm(kContext, large.view, std::span(&dim, 1), false, result.view);
  testing::expect_close(result.view, {300 * std::sqrt(5.0)}, rounding(DType::float16));
  standard_deviation(kContext, large.view, std::span(&dim, 1), 0, false, result.view);
  testing::expect_close(result.view, {300 * std::sqrt(0.96)}, rounding(DType::float16));
  for (const double magnitude : {1e25, 1e-25}) {
    const Buffer x({3}, DType::float32), norm = testing::poisoned({1}, DType::float32);
    for (int64_t i = 0; i < 3; ++i) testing::store(x.view.data, DType::float32, i, static_cast<double>(i + 1) * magnitude);
    euclidean_norm(kContext, x.view, std::nullopt, false, norm.view);
    testing::expect_close(norm.view, {std::sqrt(14.0) * magnitude}, rounding(DType::float32), 1e-300);
  }
}

TEST_P(SpreadOnEveryTarget, NormsOfDoublesOfAllMagnitudes) {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const std::vector<std::pair<Row, double>> rows = {
      {{3e-200, 4e-200}, 5e-200},
      {{3e200, 4e200}, 5e200},
      {{3e-320, 4e-320}, 5e-320},
      {{1e-200, 1}, 1},
      {{1e200, 1e-200, 1}, 1e200},
      {{1e308, 1e308}, 1e308 * std::sqrt(2.0)},
      {{0, 0}, 0},
      {{1e-200, infinity}, infinity},
      {{nan, 1e200, 1e-200}, nan},
      {{3e-160, 4e-160}, 5e-160},
      {{1e-160, 2e-155}, 2e-155 * std::sqrt(1 + 0.25e-10)},
  };
  for (const auto& [values, norm] : rows) {
    const auto n = static_cast<int64_t>(values.size());
    for (const int64_t copies : {1, 100}) {  // rows of which the elements run on, and columns
      const Buffer x({n, copies}, DType::float64), result = testing::poisoned({copies}, DType::float64);
      for (int64_t i = 0; i < n * copies; ++i) x.view.ptr<double>()[i] = values[static_cast<size_t>(i / copies)];
      const int64_t dim = 0;
      euclidean_norm(kContext, x.view, std::span(&dim, 1), false, result.view);
      for (int64_t c = 0; c < copies; ++c) {
        const double got = result.view.ptr<double>()[c];
        EXPECT_TRUE(got == norm || (std::isnan(got) && std::isnan(norm)) ||
                    std::abs(got / norm - 1) < (norm < 1e-300 ? 1e-3 : 1e-14))
            << got << " in place of " << norm;
      }
    }
  }
}

TEST_P(SpreadOnEveryTarget, VariancesOfDoublesOfAllMagnitudes) {
  for (const int64_t n : {1, 2, 7, 40, 1500, 300'000}) {  // short rows, gathered ones, long ones in pieces
    for (const int64_t copies : {1, 3, 21, 600}) {
      if (n * copies > 1'000'000) continue;
      const int64_t correction = below(2);
      std::vector<Row> columns;
      for (int64_t c = 0; c < copies; ++c) columns.push_back(testing::column_of_any_magnitude(n));
      for (const int64_t dim : {0, 1}) {
        const Buffer x(dim == 0 ? std::vector<int64_t>{n, copies} : std::vector<int64_t>{copies, n}, DType::float64);
        for (int64_t c = 0; c < copies; ++c) {
          for (int64_t i = 0; i < n; ++i)
            x.view.ptr<double>()[dim == 0 ? i * copies + c : c * n + i] = columns[static_cast<size_t>(c)][static_cast<size_t>(i)];
        }
        for (const bool root : {false, true}) {
          SCOPED_TRACE(::testing::Message() << n << " x " << copies << " dim " << dim << " correction " << correction << root);
          std::vector<double> want;
          for (const Row& column : columns) want.push_back(testing::exact_spread(column, correction, root));
          const Buffer result = testing::poisoned({copies}, DType::float64);
          (root ? standard_deviation : variance)(kContext, x.view, std::span(&dim, 1), correction, false, result.view);
          testing::expect_spread(result.view, want, columns, root);
        }
      }
    }
  }
}

TEST_P(SpreadOnEveryTarget, VariancesOfInfiniteElementsAreNan) {
  for (const int64_t copies : {1, 40}) {
    const Buffer x({3, copies}, DType::float64), result = testing::poisoned({copies}, DType::float64);
    for (const double infinite : {kInfinity, -kInfinity, std::nan("")}) {
      for (int64_t i = 0; i < 3 * copies; ++i) x.view.ptr<double>()[i] = i < copies ? infinite : 1e200;
      const int64_t dim = 0;
      variance(kContext, x.view, std::span(&dim, 1), 1, false, result.view);
      for (const double value : testing::values(result.view)) EXPECT_TRUE(std::isnan(value));
    }
  }
}

TEST(Spread, OfNothingIsNan) {
  const Buffer none({2, 0}, DType::float64), one({2, 1}, DType::float64), result = testing::poisoned({2}, DType::float64);
  std::fill_n(one.view.ptr<double>(), 2, 3.0);
  const int64_t dim = 1;
  variance(kContext, none.view, std::span(&dim, 1), 1, false, result.view);
  EXPECT_TRUE(std::isnan(result.view.ptr<double>()[0]));
  variance(kContext, one.view, std::span(&dim, 1), 1, false, result.view);
  EXPECT_TRUE(std::isnan(result.view.ptr<double>()[1]));
  euclidean_norm(kContext, none.view, std::span(&dim, 1), false, result.view);
  EXPECT_EQ(result.view.ptr<double>()[0], 0);
}

TEST(Spread, DoesNotDependOnTheNumberOfThreads) {
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{300'003}, {2000, 100}, {100, 2000}}) {
    const Buffer x = testing::random_normal(sizes, DType::float32);
    for (int64_t dim = 0; dim < x.view.ndim; ++dim) {
      const int64_t rows = x.view.numel() / x.view.sizes[dim];
      testing::expect_same_for_thread_counts([&] {
        const Buffer norm = testing::poisoned({rows}, DType::float32), spread = testing::poisoned({rows}, DType::float32);
        euclidean_norm(kContext, x.view, std::span(&dim, 1), false, norm.view);
        standard_deviation(kContext, x.view, std::span(&dim, 1), 1, false, spread.view);
        const Buffer gradient = testing::poisoned(sizes, DType::float32);
        deviations_of_rows(kContext, x.view, spread.view, norm.view, std::span(&dim, 1), gradient.view);
        return testing::bytes(norm, spread, gradient);
      });
    }
  }
}

}  // namespace
}  // namespace deckle::kernels::cpu
