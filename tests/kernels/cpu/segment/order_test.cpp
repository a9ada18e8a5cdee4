// Components with non-contiguous rows (RaggedView::order) give the same bits as their contiguous copies.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "deckle/kernels/args/context.h"
#include "tests/kernels/cpu/support/buffer.h"

namespace deckle::kernels::cpu {
void segment_sum(const Context&, const View& values, const RaggedView& ragged, const View& sums);
void segment_mean(const Context&, const View& values, const RaggedView& ragged, const View& means);
void segment_cumsum(const Context&, const View& values, const RaggedView& ragged, bool reverse, const View& sums);
void segment_max(const Context&, const View& values, const RaggedView& ragged, const View& largest, const View& rows);
void segment_amin(const Context&, const View& values, const RaggedView& ragged, const View& smallest);
void segment_prod(const Context&, const View& values, const RaggedView& ragged, const View& result);
void segment_var(const Context&, const View& values, const RaggedView& ragged, int64_t correction, const View& result);
void segment_norm(const Context&, const View& values, const RaggedView& ragged, const View& result);
void segment_softmax(const Context&, const View& values, const RaggedView& ragged, const View& result);
void segment_softmax_backward(const Context&, const View& gradient, const View& output, const RaggedView& ragged,
                              const View& result);
void segment_log_softmax(const Context&, const View& values, const RaggedView& ragged, const View& result);
void segment_log_softmax_backward(const Context&, const View& gradient, const View& output, const RaggedView& ragged,
                                  const View& result);
void segment_logsumexp(const Context&, const View& values, const RaggedView& ragged, const View& result);
void segment_sort(const Context&, const View& self, const RaggedView& ragged, bool descending, const View& values,
                  const View& rows);
}  // namespace deckle::kernels::cpu

namespace deckle {
namespace {

using testing::Buffer;
using testing::poisoned;
using testing::values;

struct Case {
  const char* name;
  bool reduces;  // to one row per component
  std::function<void(const View& x, const RaggedView& ragged, const View& result, const View& rows)> run;
  bool gives_rows = false;
};

const std::vector<Case>& cases() {
  namespace cpu = kernels::cpu;
  static const std::vector<Case> all = {
      {"sum", true, [](const View& x, const RaggedView& r, const View& y, const View&) { cpu::segment_sum({}, x, r, y); }},
      {"mean", true, [](const View& x, const RaggedView& r, const View& y, const View&) { cpu::segment_mean({}, x, r, y); }},
      {"amin", true, [](const View& x, const RaggedView& r, const View& y, const View&) { cpu::segment_amin({}, x, r, y); }},
      {"prod", true, [](const View& x, const RaggedView& r, const View& y, const View&) { cpu::segment_prod({}, x, r, y); }},
      {"var", true, [](const View& x, const RaggedView& r, const View& y, const View&) { cpu::segment_var({}, x, r, 0, y); }},
      {"norm", true, [](const View& x, const RaggedView& r, const View& y, const View&) { cpu::segment_norm({}, x, r, y); }},
      {"logsumexp", true,
       [](const View& x, const RaggedView& r, const View& y, const View&) { cpu::segment_logsumexp({}, x, r, y); }},
      {"max", true,
       [](const View& x, const RaggedView& r, const View& y, const View& rows) { cpu::segment_max({}, x, r, y, rows); }, true},
      {"softmax", false,
       [](const View& x, const RaggedView& r, const View& y, const View&) { cpu::segment_softmax({}, x, r, y); }},
      {"softmax_backward", false,
       [](const View& x, const RaggedView& r, const View& y, const View&) { cpu::segment_softmax_backward({}, x, x, r, y); }},
      {"log_softmax", false,
       [](const View& x, const RaggedView& r, const View& y, const View&) { cpu::segment_log_softmax({}, x, r, y); }},
      {"log_softmax_backward", false,
       [](const View& x, const RaggedView& r, const View& y, const View&) { cpu::segment_log_softmax_backward({}, x, x, r, y); }},
      {"cumsum", false,
       [](const View& x, const RaggedView& r, const View& y, const View&) { cpu::segment_cumsum({}, x, r, true, y); }},
      {"sort", false,
       [](const View& x, const RaggedView& r, const View& y, const View& rows) { cpu::segment_sort({}, x, r, false, y, rows); },
       true},
  };
  return all;
}

/// Row order[i] of `from` as row i.
Buffer brought_together(const Buffer& from, const std::vector<int64_t>& order, int64_t inner) {
  Buffer result({static_cast<int64_t>(order.size()), inner}, from.view.dtype);
  for (size_t i = 0; i < order.size(); ++i) {
    for (int64_t c = 0; c < inner; ++c) {
      testing::store(result.view.data, from.view.dtype, static_cast<int64_t>(i) * inner + c,
                     testing::load(from.view.data, from.view.dtype, order[i] * inner + c));
    }
  }
  return result;
}

/// As values(), NaN made comparable.
std::vector<double> comparable(const View& view) {
  std::vector<double> result = values(view);
  for (double& value : result) value = std::isnan(value) ? 1e300 : value;
  return result;
}

TEST(SegmentOrder, RowsThatLieApartAreReducedAsIfBroughtTogether) {
  const std::vector<int64_t> lengths = {3, 0, 70, 1, 5000}, offsets = {0, 3, 3, 73, 74, 5074};
  std::vector<int64_t> order(5074);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), testing::engine());
  RaggedView together{5, 1, lengths.data(), offsets.data()}, apart = together;
  apart.order = order.data();
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    for (const int64_t inner : {1, 5, 300}) {
      const Buffer x = testing::random_normal({5074, inner}, dtype), y = brought_together(x, order, inner);
      for (const Case& each : cases()) {
        SCOPED_TRACE(fmt::format("{} of {} columns of {}", each.name, inner, name(dtype)));
        const int64_t rows = each.reduces ? 5 : 5074;
        const Buffer got = poisoned({rows, inner}, dtype), want = poisoned({rows, inner}, dtype);
        const Buffer got_rows = poisoned({rows, inner}, DType::int64), want_rows = poisoned({rows, inner}, DType::int64);
        each.run(x.view, apart, got.view, got_rows.view);
        each.run(y.view, together, want.view, want_rows.view);
        EXPECT_EQ(comparable(each.reduces ? got.view : brought_together(got, order, inner).view), comparable(want.view));
        if (!each.gives_rows) continue;
        std::vector<double> places = values(want_rows.view);
        for (double& row : places) row = row < 0 ? row : static_cast<double>(order[static_cast<size_t>(row)]);
        EXPECT_EQ(values(each.reduces ? got_rows.view : brought_together(got_rows, order, inner).view), places);
      }
    }
  }
}

}  // namespace
}  // namespace deckle
