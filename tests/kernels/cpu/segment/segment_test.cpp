#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "deckle/base/parallel.h"
#include "deckle/kernels/args/context.h"
#include "tests/kernels/cpu/support/buffer.h"
#include "tests/kernels/cpu/support/components.h"
#include "tests/kernels/cpu/support/magnitudes.h"

namespace deckle::kernels::cpu {
void segment_sum(const Context&, const View& values, const RaggedView& ragged, const View& sums);
void segment_mean(const Context&, const View& values, const RaggedView& ragged, const View& means);
void segment_cumsum(const Context&, const View& values, const RaggedView& ragged, bool reverse, const View& sums);
void segment_max(const Context&, const View& values, const RaggedView& ragged, const View& largest, const View& rows);
void segment_take(const Context&, const View& values, const View& rows, const View& result);
void segment_put(const Context&, const View& gradient, const View& rows, int64_t count, const View& result);
void segment_min(const Context&, const View& values, const RaggedView& ragged, const View& smallest, const View& rows);
void segment_argmax(const Context&, const View& values, const RaggedView& ragged, const View& rows);
void segment_argmin(const Context&, const View& values, const RaggedView& ragged, const View& rows);
void segment_amax(const Context&, const View& values, const RaggedView& ragged, const View& largest);
void segment_amin(const Context&, const View& values, const RaggedView& ragged, const View& smallest);
void segment_prod(const Context&, const View& values, const RaggedView& ragged, const View& result);
void segment_var(const Context&, const View& values, const RaggedView& ragged, int64_t correction, const View& result);
void segment_std(const Context&, const View& values, const RaggedView& ragged, int64_t correction, const View& result);
void segment_norm(const Context&, const View& values, const RaggedView& ragged, const View& result);
void segment_softmax(const Context&, const View& values, const RaggedView& ragged, const View& result);
void segment_softmax_backward(const Context&, const View& gradient, const View& output, const RaggedView& ragged,
                              const View& result);
void segment_log_softmax(const Context&, const View& values, const RaggedView& ragged, const View& result);
void segment_log_softmax_backward(const Context&, const View& gradient, const View& output, const RaggedView& ragged,
                                  const View& result);
void segment_logsumexp(const Context&, const View& values, const RaggedView& ragged, const View& result);
}  // namespace deckle::kernels::cpu

namespace deckle {
namespace {

using testing::Buffer;
using testing::Components;
using testing::expect_close;
using testing::poisoned;
using testing::random_normal;
using testing::values;

const std::vector<std::vector<int64_t>> kLengths = {{3, 0, 5, 1}, {0, 0}, {}, {40, 0, 17}, {1, 9000, 3}};
constexpr int64_t kInner[] = {1, 3, 16, 257, 600};
constexpr DType kTypes[] = {DType::float64, DType::float32, DType::bfloat16, DType::float16};

double tolerance(DType dtype) {
  return dtype == DType::float64 ? 1e-12 : dtype == DType::float32 ? 2e-6 : dtype == DType::float16 ? 2e-3 : 1.5e-2;
}

/// Runs `body` on every ragged shape, row width and floating type.
void for_cases(const std::function<void(const Components&, int64_t inner, DType)>& body) {
  for (const auto& lengths : kLengths) {
    for (const int64_t inner : kInner) {
      for (const DType dtype : kTypes) {
        if (lengths.size() == 3 && lengths[1] > 1000 && inner != 3) continue;  // one long component is enough
        SCOPED_TRACE(fmt::format("lengths [{}] inner {} {}", fmt::join(lengths, ", "), inner, name(dtype)));
        body(Components(lengths), inner, dtype);
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

/// Applies `column(values of one column of one component) -> new values` everywhere.
std::vector<double> by_column(const Components& batch, int64_t inner, const std::vector<double>& x,
                              const std::function<std::vector<double>(const std::vector<double>&)>& column) {
  std::vector<double> result;
  for (size_t b = 0; b < batch.lengths.size(); ++b) {
    std::vector<std::vector<double>> columns;
    for (int64_t c = 0; c < inner; ++c) {
      std::vector<double> in;
      for (int64_t row = batch.offsets[b]; row < batch.offsets[b + 1]; ++row)
        in.push_back(x[static_cast<size_t>(row * inner + c)]);
      columns.push_back(column(in));
    }
    for (size_t i = 0; !columns.empty() && i < columns[0].size(); ++i) {
      for (const auto& out : columns) result.push_back(out[i]);
    }
  }
  return result;
}

double total(const std::vector<double>& x) {
  double sum = 0;
  for (const double value : x) sum += value;
  return sum;
}

double log_sum_exp(const std::vector<double>& x) {
  double sum = 0;
  for (const double value : x) sum += std::exp(value);
  return std::log(sum);
}

TEST(Segment, SumAndMean) {
  for_cases([](const Components& batch, int64_t inner, DType dtype) {
    const Buffer x = random_normal({batch.offsets.back(), inner}, dtype);
    const Buffer sums = poisoned({batch.count(), inner}, dtype), means = poisoned({batch.count(), inner}, dtype);
    kernels::cpu::segment_sum({}, x.view, batch.view(), sums.view);
    kernels::cpu::segment_mean({}, x.view, batch.view(), means.view);
    const std::vector<double> data = values(x.view);
    expect_close(sums.view, by_column(batch, inner, data, [](const auto& c) { return std::vector{total(c)}; }), tolerance(dtype),
                 40);
    expect_close(
        means.view,
        by_column(batch, inner, data, [](const auto& c) { return std::vector{total(c) / static_cast<double>(c.size())}; }),
        tolerance(dtype), 40);
  });
}

TEST(Segment, CumsumBothWays) {
  for_cases([](const Components& batch, int64_t inner, DType dtype) {
    const Buffer x = random_normal({batch.offsets.back(), inner}, dtype);
    for (const bool reverse : {false, true}) {
      const Buffer sums = poisoned({batch.offsets.back(), inner}, dtype);
      kernels::cpu::segment_cumsum({}, x.view, batch.view(), reverse, sums.view);
      const auto scan = [&](std::vector<double> c) {
        if (reverse) std::reverse(c.begin(), c.end());
        for (size_t i = 1; i < c.size(); ++i) c[i] += c[i - 1];
        if (reverse) std::reverse(c.begin(), c.end());
        return c;
      };
      expect_close(sums.view, by_column(batch, inner, values(x.view), scan), tolerance(dtype), 10);
    }
  });
}

TEST(Segment, MaxTakeAndPut) {
  for_cases([](const Components& batch, int64_t inner, DType dtype) {
    const Buffer x = random_normal({batch.offsets.back(), inner}, dtype);
    const Buffer largest = poisoned({batch.count(), inner}, dtype), rows = poisoned({batch.count(), inner}, DType::int64);
    kernels::cpu::segment_max({}, x.view, batch.view(), largest.view, rows.view);
    expect_close(
        largest.view,
        by_column(batch, inner, values(x.view),
                  [](const auto& c) { return std::vector{c.empty() ? -INFINITY : *std::max_element(c.begin(), c.end())}; }),
        0);
    const Buffer taken = poisoned({batch.count(), inner}, dtype);
    kernels::cpu::segment_take({}, x.view, rows.view, taken.view);
    std::vector<double> want = values(largest.view);
    for (double& value : want) value = value == -INFINITY ? 0 : value;
    expect_close(taken.view, want, 0);
    const Buffer put = poisoned({batch.offsets.back(), inner}, dtype);
    kernels::cpu::segment_put({}, taken.view, rows.view, batch.offsets.back(), put.view);
    double sum_put = 0, sum_taken = 0;
    for (const double value : values(put.view)) sum_put += value;
    for (const double value : want) sum_taken += value;
    EXPECT_NEAR(sum_put, sum_taken, 1e-6 * std::max(1.0, std::abs(sum_taken)));
  });
}

TEST(Segment, ExtremaAndTheFirstRowsThatHoldThem) {
  using Kernel = void (*)(const Context&, const View&, const RaggedView&, const View&, const View&);
  using RowKernel = void (*)(const Context&, const View&, const RaggedView&, const View&);
  struct Extremum {
    double sign;
    Kernel both;
    RowKernel rows, values;
  };
  const Extremum extrema[] = {{1, kernels::cpu::segment_max, kernels::cpu::segment_argmax, kernels::cpu::segment_amax},
                              {-1, kernels::cpu::segment_min, kernels::cpu::segment_argmin, kernels::cpu::segment_amin}};
  for_cases([&](const Components& batch, int64_t inner, DType dtype) {
    const Buffer x = testing::random_integers({batch.offsets.back(), inner}, dtype, -9, 9);  // many equal ones
    for (const Extremum& extremum : extrema) {
      const std::vector<double> want = by_column(batch, inner, values(x.view), [&](const auto& c) {
        double best = -INFINITY;
        for (const double value : c) best = std::max(best, extremum.sign * value);
        return std::vector{extremum.sign * best};
      });
      const std::vector<double> places = by_column(batch, inner, values(x.view), [&](const auto& c) {
        size_t best = 0;
        for (size_t i = 1; i < c.size(); ++i) best = extremum.sign * c[i] > extremum.sign * c[best] ? i : best;
        return std::vector{c.empty() ? -1.0 : static_cast<double>(best)};
      });
      const Buffer best = poisoned({batch.count(), inner}, dtype), alone = poisoned({batch.count(), inner}, dtype);
      const Buffer rows = poisoned({batch.count(), inner}, DType::int64),
                   rows_alone = poisoned({batch.count(), inner}, DType::int64);
      extremum.both({}, x.view, batch.view(), best.view, rows.view);
      extremum.rows({}, x.view, batch.view(), rows_alone.view);
      extremum.values({}, x.view, batch.view(), alone.view);
      expect_close(best.view, want, 0);
      expect_close(alone.view, want, 0);
      std::vector<double> want_rows = places;
      for (size_t i = 0; i < places.size(); ++i)
        want_rows[i] += places[i] < 0 ? 0 : static_cast<double>(batch.offsets[i / static_cast<size_t>(inner)]);
      expect_close(rows.view, want_rows, 0);
      expect_close(rows_alone.view, want_rows, 0);
    }
  });
}

TEST(Segment, ANanWinsTheExtrema) {
  const Components batch({3, 2});
  const Buffer x = random_normal({5, 1}, DType::float32), best = poisoned({2, 1}, DType::float32),
               rows = poisoned({2, 1}, DType::int64);
  x.view.ptr<float>()[1] = NAN;
  for (const auto both : {kernels::cpu::segment_max, kernels::cpu::segment_min}) {
    both({}, x.view, batch.view(), best.view, rows.view);
    EXPECT_TRUE(std::isnan(best.view.ptr<float>()[0]));
    EXPECT_FALSE(std::isnan(best.view.ptr<float>()[1]));
    EXPECT_EQ(rows.view.ptr<int64_t>()[0], 1);
  }
  for (const auto alone : {kernels::cpu::segment_amax, kernels::cpu::segment_amin}) {
    alone({}, x.view, batch.view(), best.view);
    EXPECT_TRUE(std::isnan(best.view.ptr<float>()[0]));
    EXPECT_FALSE(std::isnan(best.view.ptr<float>()[1]));
  }
}

TEST(Segment, SpreadNormAndProducts) {
  for_cases([](const Components& batch, int64_t inner, DType dtype) {
    Buffer x = random_normal({batch.offsets.back(), inner}, dtype);
    const Buffer spread = poisoned({batch.count(), inner}, dtype);
    for (const int64_t correction : {0, 1}) {
      kernels::cpu::segment_var({}, x.view, batch.view(), correction, spread.view);
      const auto variance = [&](const auto& c) {
        const double mean = total(c) / static_cast<double>(c.size());
        double squares = 0;
        for (const double value : c) squares += (value - mean) * (value - mean);
        return std::vector{c.empty() ? NAN : squares / (static_cast<double>(c.size()) - static_cast<double>(correction))};
      };
      expect_close(spread.view, by_column(batch, inner, values(x.view), variance), tolerance(dtype));
      kernels::cpu::segment_std({}, x.view, batch.view(), correction, spread.view);
      expect_close(spread.view,
                   by_column(batch, inner, values(x.view), [&](const auto& c) { return std::vector{std::sqrt(variance(c)[0])}; }),
                   tolerance(dtype));
    }
    kernels::cpu::segment_norm({}, x.view, batch.view(), spread.view);
    const auto norm = [](const auto& c) {
      double squares = 0;
      for (const double value : c) squares += value * value;
      return std::vector{std::sqrt(squares)};
    };
    expect_close(spread.view, by_column(batch, inner, values(x.view), norm), tolerance(dtype));
    for (int64_t i = 0; i < x.view.numel(); ++i)
      testing::store(x.view.data, dtype, i, 1 + testing::load(x.view.data, dtype, i) / 256);  // stays finite
    const Buffer products = poisoned({batch.count(), inner}, dtype);
    kernels::cpu::segment_prod({}, x.view, batch.view(), products.view);
    const auto product = [](const auto& c) {
      double result = 1;
      for (const double value : c) result *= value;
      return std::vector{result};
    };
    expect_close(products.view, by_column(batch, inner, values(x.view), product),
                 dtype == DType::float64 ? 1e-11 : tolerance(dtype));
  });
}

TEST(Segment, VariancesOfDoublesOfAllMagnitudes) {
  for (const auto& lengths : std::vector<std::vector<int64_t>>{{3, 0, 40, 1}, {2, 9000, 17}}) {
    for (const int64_t inner : {1, 3, 40}) {
      const Components batch(lengths);
      const int64_t rows = batch.offsets.back();
      const Buffer x({rows, inner}, DType::float64), spread = poisoned({batch.count(), inner}, DType::float64);
      std::vector<std::vector<double>> columns;
      std::vector<int64_t> order;  // each component from its last row on
      for (size_t b = 0; b < lengths.size(); ++b) {
        for (int64_t i = 0; i < lengths[b]; ++i) order.push_back(batch.offsets[b + 1] - 1 - i);
        for (int64_t c = 0; c < inner; ++c) {
          columns.push_back(testing::column_of_any_magnitude(lengths[b]));
          for (int64_t i = 0; i < lengths[b]; ++i)
            x.view.ptr<double>()[(batch.offsets[b] + i) * inner + c] = columns.back()[static_cast<size_t>(i)];
        }
      }
      RaggedView apart = batch.view();
      apart.order = order.data();
      for (const bool root : {false, true}) {
        std::vector<double> want;
        for (const auto& column : columns) want.push_back(testing::exact_spread(column, 0, root));
        for (const RaggedView& ragged : {batch.view(), apart}) {
          SCOPED_TRACE(fmt::format("lengths [{}] inner {} root {} order {}", fmt::join(lengths, ", "), inner, root,
                                   ragged.order != nullptr));
          (root ? kernels::cpu::segment_std : kernels::cpu::segment_var)({}, x.view, ragged, 0, spread.view);
          testing::expect_spread(spread.view, want, columns, root);
        }
      }
    }
  }
}

TEST(Segment, IntegersAreSummedExactly) {
  const Components batch({3, 0, 2});
  const Buffer x = testing::random_integers({5, 2}, DType::int64, 0, 2), sums = poisoned({3, 2}, DType::int64);
  const int64_t large = (int64_t{1} << 53) + 1;  // no double
  x.view.ptr<int64_t>()[0] = large;
  x.view.ptr<int64_t>()[2] = 1;
  x.view.ptr<int64_t>()[4] = 0;
  kernels::cpu::segment_sum({}, x.view, batch.view(), sums.view);
  EXPECT_EQ(sums.view.ptr<int64_t>()[0], large + 1);
  EXPECT_EQ(sums.view.ptr<int64_t>()[2], 0);
  const Buffer flags = testing::random_integers({5, 2}, DType::bool_, 1, 2);
  kernels::cpu::segment_sum({}, flags.view, batch.view(), sums.view);
  EXPECT_EQ(sums.view.ptr<int64_t>()[0], 3);
  const Buffer small = testing::random_integers({5, 2}, DType::int32, -5, 6), best = poisoned({3, 2}, DType::int32);
  kernels::cpu::segment_amax({}, small.view, batch.view(), best.view);
  EXPECT_EQ(best.view.ptr<int32_t>()[2], std::numeric_limits<int32_t>::lowest()) << "of an empty component";
}

TEST(Segment, SoftmaxItsGradientAndLogSumExp) {
  for_cases([](const Components& batch, int64_t inner, DType dtype) {
    const Buffer x = random_normal({batch.offsets.back(), inner}, dtype), g = random_normal({batch.offsets.back(), inner}, dtype);
    const Buffer y = poisoned({batch.offsets.back(), inner}, dtype), gradient = poisoned({batch.offsets.back(), inner}, dtype);
    kernels::cpu::segment_softmax({}, x.view, batch.view(), y.view);
    const auto softmax = [](std::vector<double> c) {
      const double lse = log_sum_exp(c);
      for (double& value : c) value = std::exp(value - lse);
      return c;
    };
    expect_close(y.view, by_column(batch, inner, values(x.view), softmax), tolerance(dtype));

    kernels::cpu::segment_softmax_backward({}, g.view, y.view, batch.view(), gradient.view);
    const std::vector<double> ys = values(y.view), gs = values(g.view);
    std::vector<double> products;
    for (size_t i = 0; i < ys.size(); ++i) products.push_back(ys[i] * gs[i]);
    const std::vector<double> means =
        by_column(batch, inner, products, [](const auto& c) { return std::vector<double>(c.size(), total(c)); });
    std::vector<double> want;
    for (size_t i = 0; i < ys.size(); ++i) want.push_back(ys[i] * (gs[i] - means[i]));
    expect_close(gradient.view, want, tolerance(dtype));

    const Buffer lse = poisoned({batch.count(), inner}, dtype);
    kernels::cpu::segment_logsumexp({}, x.view, batch.view(), lse.view);
    expect_close(lse.view, by_column(batch, inner, values(x.view), [](const auto& c) { return std::vector{log_sum_exp(c)}; }),
                 tolerance(dtype));
  });
}

TEST(Segment, LogSoftmaxAndItsGradient) {
  for_cases([](const Components& batch, int64_t inner, DType dtype) {
    const Buffer x = random_normal({batch.offsets.back(), inner}, dtype), g = random_normal({batch.offsets.back(), inner}, dtype);
    const Buffer y = poisoned({batch.offsets.back(), inner}, dtype), gradient = poisoned({batch.offsets.back(), inner}, dtype);
    kernels::cpu::segment_log_softmax({}, x.view, batch.view(), y.view);
    const auto log_softmax = [](std::vector<double> c) {
      const double lse = log_sum_exp(c);
      for (double& value : c) value -= lse;
      return c;
    };
    expect_close(y.view, by_column(batch, inner, values(x.view), log_softmax), tolerance(dtype));

    kernels::cpu::segment_log_softmax_backward({}, g.view, y.view, batch.view(), gradient.view);
    const std::vector<double> ys = values(y.view), gs = values(g.view);
    const std::vector<double> totals =
        by_column(batch, inner, gs, [](const auto& c) { return std::vector<double>(c.size(), total(c)); });
    std::vector<double> want;
    for (size_t i = 0; i < ys.size(); ++i) want.push_back(gs[i] - std::exp(ys[i]) * totals[i]);
    expect_close(gradient.view, want, tolerance(dtype));
  });
}

TEST(Segment, SumsAreBitEqualForAnyNumberOfThreads) {
  const Components batch({3, 10000, 0, 700});
  const Buffer x = random_normal({batch.offsets.back(), 37}, DType::float32);
  std::vector<unsigned char> first;
  for (const int threads : {1, 2, 3, 8, 16, 32}) {
    set_num_threads(threads);
    const Buffer sums = poisoned({4, 37}, DType::float32);
    kernels::cpu::segment_sum({}, x.view, batch.view(), sums.view);
    if (first.empty()) first = testing::bytes(sums);
    EXPECT_EQ(testing::bytes(sums), first) << threads << " threads";
  }
  set_num_threads(2);
}

TEST(Segment, ANanStaysInItsComponent) {
  const Components batch({2, 2, 2});
  const Buffer x = random_normal({6, 2}, DType::float32);
  x.view.ptr<float>()[4] = NAN;
  const Buffer y = poisoned({6, 2}, DType::float32);
  kernels::cpu::segment_softmax({}, x.view, batch.view(), y.view);
  for (int i = 0; i < 12; ++i) EXPECT_EQ(std::isnan(y.view.ptr<float>()[i]), i == 4 || i == 6) << i;
}

}  // namespace
}  // namespace deckle
