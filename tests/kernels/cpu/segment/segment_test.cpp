#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "deckle/base/parallel.h"
#include "deckle/kernels/args/context.h"
#include "tests/kernels/cpu/support/buffer.h"

namespace deckle::kernels::cpu {
void segment_sum(const CpuContext&, const View& values, const RaggedView& ragged, const View& sums);
void segment_broadcast(const CpuContext&, const View& rows, const RaggedView& ragged, const View& values);
void segment_cumsum(const CpuContext&, const View& values, const RaggedView& ragged, bool reverse, const View& sums);
void segment_max(const CpuContext&, const View& values, const RaggedView& ragged, const View& largest, const View& rows);
void segment_take(const CpuContext&, const View& values, const View& rows, const View& result);
void segment_put(const CpuContext&, const View& gradient, const View& rows, int64_t count, const View& result);
void segment_softmax(const CpuContext&, const View& values, const RaggedView& ragged, const View& result);
void segment_softmax_backward(const CpuContext&, const View& gradient, const View& output, const RaggedView& ragged, const View& result);
void segment_logsumexp(const CpuContext&, const View& values, const RaggedView& ragged, const View& result);
}  // namespace deckle::kernels::cpu

namespace deckle {
namespace {

using testing::Buffer;
using testing::expect_close;
using testing::poisoned;
using testing::random_normal;
using testing::values;

struct Batch {
  std::vector<int64_t> lengths, offsets = {0};
  explicit Batch(std::vector<int64_t> sizes) : lengths(std::move(sizes)) {
    for (const int64_t length : lengths) offsets.push_back(offsets.back() + length);
  }
  RaggedView view() const { return {static_cast<int64_t>(lengths.size()), 1, lengths.data(), offsets.data()}; }
  int64_t components() const { return static_cast<int64_t>(lengths.size()); }
};

const std::vector<std::vector<int64_t>> kLengths = {{3, 0, 5, 1}, {0, 0}, {}, {40, 0, 17}, {1, 9000, 3}};
constexpr int64_t kInner[] = {1, 3, 16, 257, 600};
constexpr DType kTypes[] = {DType::float64, DType::float32, DType::bfloat16, DType::float16};

double tolerance(DType dtype) { return dtype == DType::float64 ? 1e-12 : dtype == DType::float32 ? 2e-6 : dtype == DType::float16 ? 2e-3 : 1.5e-2; }

/// Runs `body` on every raggedness, row width and floating type.
void for_cases(const std::function<void(const Batch&, int64_t inner, DType)>& body) {
  for (const auto& lengths : kLengths) {
    for (const int64_t inner : kInner) {
      for (const DType dtype : kTypes) {
        if (lengths.size() == 3 && lengths[1] > 1000 && inner != 3) continue;  // one long component is enough
        SCOPED_TRACE(fmt::format("lengths [{}] inner {} {}", fmt::join(lengths, ", "), inner, name(dtype)));
        body(Batch(lengths), inner, dtype);
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

/// Applies `column(values of one column of one component) -> new values` everywhere.
std::vector<double> by_column(const Batch& batch, int64_t inner, const std::vector<double>& x,
                              const std::function<std::vector<double>(const std::vector<double>&)>& column) {
  std::vector<double> result;
  for (size_t b = 0; b < batch.lengths.size(); ++b) {
    std::vector<std::vector<double>> columns;
    for (int64_t c = 0; c < inner; ++c) {
      std::vector<double> in;
      for (int64_t row = batch.offsets[b]; row < batch.offsets[b + 1]; ++row) in.push_back(x[static_cast<size_t>(row * inner + c)]);
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

TEST(Segment, SumAndBroadcast) {
  for_cases([](const Batch& batch, int64_t inner, DType dtype) {
    const Buffer x = random_normal({batch.offsets.back(), inner}, dtype);
    const Buffer sums = poisoned({batch.components(), inner}, dtype);
    kernels::cpu::segment_sum({}, x.view, batch.view(), sums.view);
    expect_close(sums.view, by_column(batch, inner, values(x.view), [](const auto& c) { return std::vector{total(c)}; }), tolerance(dtype), 40);

    const Buffer spread = poisoned({batch.offsets.back(), inner}, dtype);
    kernels::cpu::segment_broadcast({}, sums.view, batch.view(), spread.view);
    const std::vector<double> rows = values(sums.view), got = values(spread.view);
    for (size_t b = 0; b < batch.lengths.size(); ++b) {
      for (int64_t at = batch.offsets[b] * inner; at < batch.offsets[b + 1] * inner; ++at) {
        ASSERT_EQ(got[static_cast<size_t>(at)], rows[b * static_cast<size_t>(inner) + static_cast<size_t>(at % inner)]);
      }
    }
  });
}

TEST(Segment, CumsumBothWays) {
  for_cases([](const Batch& batch, int64_t inner, DType dtype) {
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
  for_cases([](const Batch& batch, int64_t inner, DType dtype) {
    const Buffer x = random_normal({batch.offsets.back(), inner}, dtype);
    const Buffer largest = poisoned({batch.components(), inner}, dtype), rows = poisoned({batch.components(), inner}, DType::int64);
    kernels::cpu::segment_max({}, x.view, batch.view(), largest.view, rows.view);
    expect_close(largest.view, by_column(batch, inner, values(x.view), [](const auto& c) {
                   return std::vector{c.empty() ? -INFINITY : *std::max_element(c.begin(), c.end())};
                 }), 0);
    const Buffer taken = poisoned({batch.components(), inner}, dtype);
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

TEST(Segment, SoftmaxItsGradientAndLogSumExp) {
  for_cases([](const Batch& batch, int64_t inner, DType dtype) {
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
    const std::vector<double> means = by_column(batch, inner, products, [](const auto& c) { return std::vector<double>(c.size(), total(c)); });
    std::vector<double> want;
    for (size_t i = 0; i < ys.size(); ++i) want.push_back(ys[i] * (gs[i] - means[i]));
    expect_close(gradient.view, want, tolerance(dtype));

    const Buffer lse = poisoned({batch.components(), inner}, dtype);
    kernels::cpu::segment_logsumexp({}, x.view, batch.view(), lse.view);
    expect_close(lse.view, by_column(batch, inner, values(x.view), [](const auto& c) { return std::vector{log_sum_exp(c)}; }), tolerance(dtype));
  });
}

TEST(Segment, SumsAreBitEqualForAnyNumberOfThreads) {
  const Batch batch({3, 10000, 0, 700});
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
  const Batch batch({2, 2, 2});
  const Buffer x = random_normal({6, 2}, DType::float32);
  x.view.ptr<float>()[4] = NAN;
  const Buffer y = poisoned({6, 2}, DType::float32);
  kernels::cpu::segment_softmax({}, x.view, batch.view(), y.view);
  for (int i = 0; i < 12; ++i) EXPECT_EQ(std::isnan(y.view.ptr<float>()[i]), i == 4 || i == 6) << i;
}

}  // namespace
}  // namespace deckle
