// softmax and log_softmax over columns that lie side by side, and their derivatives.                     x, y, g: [outer, n,
// inner]
//
// A strip of columns stays in the second cache from step to step: the largest of each column, exponentials and their sums, the
// result. Sums are those of reduce/sum.cpp. Halves are widened to a strip of float and rounded once, from there.
// Versions, 1024 x 1024, forward and backward in ratio to PyTorch's time (two cores of an Emerald Rapids, 2026-11-28):
//   gathered as rows (measured at 0da05677)   float32 1.52, 1.51   bfloat16 1.85, 2.11   float64 1.21, 1.26
//   this                                      float32 0.56, 0.49   bfloat16 1.04, 1.19   float64 0.51, 0.45
#include "deckle/kernels/cpu/reduce/softmax_columns.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>

#include "deckle/base/parallel.h"
#include "deckle/base/scratch.h"
#include "deckle/kernels/cpu/reduce/by_rows.h"
#include "deckle/kernels/cpu/reduce/layout.h"
#include "deckle/kernels/cpu/reduce/softmax.h"
#include "deckle/kernels/cpu/reduce/values.h"
#include "deckle/kernels/cpu/simd/convert.h"

namespace deckle::kernels::cpu::reduce {
namespace {

constexpr int64_t kFewest = 16;             // columns: fewer are gathered as rows
constexpr int64_t kStripElements = 131072;  // half a MiB of float
constexpr int64_t kNarrow = 32, kWide = 256;
constexpr int64_t kRowsOfSums = 128;  // exponentials or products that are added at a time, where nothing else needs them

/// An operand whose kept dims end in contiguous columns, beside one reduced dim.
bool lies_in_columns(const Layout& layout) {
  return layout.length > 0 && layout.kept.count > 0 && layout.kept.strides[layout.kept.count - 1] == 1 &&
         layout.kept.sizes[layout.kept.count - 1] >= kFewest && layout.reduced.count == 1 && layout.reduced.strides[0] > 1;
}

/// The columns of one task: in place, or as T in a buffer.
template <typename T>
class Strip {
 public:
  Strip(const View& view, const Layout& layout, int64_t width) : view_(view), layout_(layout), width_(width) {
    if (!direct()) buffer_ = scratch_.take<T>(layout.length * width);
  }
  bool direct() const { return view_.dtype == dtype_of<T>; }
  /// Columns [first, first + n) of all kept ones.
  Columns<T> at(int64_t first) const {
    if (!direct()) return {buffer_, width_};
    return {view_.ptr<T>() + layout_.kept.offset(first), layout_.reduced.strides[0]};
  }
  Columns<const T> read(int64_t first, int64_t n) const {
    if (!direct()) move(first, [&](char* memory, T* row) { simd::load_run(memory, view_.dtype, 1, n, row); });
    return {at(first).first, at(first).stride};
  }
  void finish(int64_t first, int64_t n) const {
    if (!direct()) move(first, [&](char* memory, const T* row) { simd::store_run(row, n, memory, view_.dtype, 1); });
  }

 private:
  template <typename Body>
  void move(int64_t first, Body body) const {
    const int64_t item = item_size(view_.dtype);
    char* const start = static_cast<char*>(view_.data) + layout_.kept.offset(first) * item;
    for (int64_t r = 0; r < layout_.length; ++r) body(start + r * layout_.reduced.strides[0] * item, buffer_ + r * width_);
  }

  const View& view_;
  const Layout& layout_;
  int64_t width_;
  Scratch scratch_;
  T* buffer_ = nullptr;
};

/// Cuts the columns into strips that lie side by side in every operand, for kept dims that merge in one need not in another:
/// body(width, strips) on ranges of them, with buffers of its own; strips(each) calls each(first column, number of columns).
template <typename Body>
void for_strips(std::initializer_list<const Layout*> layouts, Body body) {
  const Layout& layout = **layouts.begin();
  int64_t inner = std::numeric_limits<int64_t>::max();
  for (const Layout* each : layouts) inner = std::min(inner, each->kept.sizes[each->kept.count - 1]);
  const int64_t length = layout.length, outer = layout.rows / inner;
  const int64_t width = std::clamp(kStripElements / length / kNarrow * kNarrow, kNarrow, kWide);
  const int64_t strips = (inner + width - 1) / width;
  const int64_t grain = std::max<int64_t>(1, kRowGrain / (length * std::min(width, inner)));
  parallel_for(outer * strips, grain, [&](int64_t begin, int64_t end) {
    body(width, [&](auto each) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t column = task % strips * width;
        each(task / strips * inner + column, std::min(width, inner - column));
      }
    });
  });
}

/// Sums of columns.
template <typename T>
class Totals {
 public:
  void add(int64_t rows, int64_t n, Columns<const T> x) { op_.columns({x.first, x.stride, rows}, n, sums_); }
  double of(int64_t column) const { return sums_[column].total(); }

 private:
  const Fold<T, CompensatedSum> op_ = sums().of<T>();
  CompensatedSum sums_[kWide];
};

/// The sums of what make(first row, rows, to) computes, some rows at a time.
template <typename T, typename Make>
void add_made(int64_t length, int64_t n, Totals<T>& totals, Make make) {
  Scratch scratch;
  const Columns<T> few{scratch.take<T>(kRowsOfSums * n), n};
  for (int64_t r = 0; r < length; r += kRowsOfSums) {
    const int64_t rows = std::min(kRowsOfSums, length - r);
    make(r, rows, few);
    totals.add(rows, n, {few.first, few.stride});
  }
}

}  // namespace

bool softmax_columns(const View& self, int64_t dim, bool logarithm, const View& result) {
  const Layout from(self, dim), to(result, dim);
  if (!lies_in_columns(from) || !lies_in_columns(to)) return false;
  softmax_rows().visit(self.dtype, [&]<typename T>(TypeTag<T>, const SoftmaxRows<T>& functions) {
    const SoftmaxColumns<T>& step = functions.columns;
    const Fold<T, double> largest = maxima().of<T>();
    const int64_t length = from.length;
    for_strips({&from, &to}, [&](int64_t width, auto strips) {
      const Strip<T> x_strip(self, from, width), y_strip(result, to, width);
      strips([&](int64_t first, int64_t n) {
        const Columns<const T> x = x_strip.read(first, n);
        const Columns<T> y = y_strip.at(first);
        double maxima[kWide];
        T shift[kWide], second[kWide];
        std::fill_n(maxima, n, largest.nothing);
        largest.columns({x.first, x.stride, length}, n, maxima);
        for (int64_t c = 0; c < n; ++c) shift[c] = static_cast<T>(maxima[c]);
        Totals<T> totals;
        if (logarithm) {
          add_made(length, n, totals,
                   [&](int64_t r, int64_t rows, Columns<T> few) { step.exponentials(rows, n, x.from(r), shift, few); });
          for (int64_t c = 0; c < n; ++c) second[c] = static_cast<T>(std::log(totals.of(c)));
          step.shifted(length, n, x, shift, second, y);
        } else {
          for (int64_t r = 0; r < length; r += kRowsOfSums) {
            const int64_t rows = std::min(kRowsOfSums, length - r);
            step.exponentials(rows, n, x.from(r), shift, y.from(r));
            totals.add(rows, n, {y.row(r), y.stride});
          }
          for (int64_t c = 0; c < n; ++c) second[c] = static_cast<T>(1 / totals.of(c));
          step.scaled(length, n, {y.first, y.stride}, second, y);
        }
        y_strip.finish(first, n);
      });
    });
  });
  return true;
}

bool softmax_columns_backward(const View& grad, const View& output, int64_t dim, bool logarithm, const View& self_grad) {
  const Layout of_grad(grad, dim), of_output(output, dim), to(self_grad, dim);
  if (!lies_in_columns(of_grad) || !lies_in_columns(of_output) || !lies_in_columns(to)) return false;
  softmax_rows().visit(grad.dtype, [&]<typename T>(TypeTag<T>, const SoftmaxRows<T>& functions) {
    const SoftmaxColumns<T>& step = functions.columns;
    const int64_t length = to.length;
    for_strips({&to, &of_grad, &of_output}, [&](int64_t width, auto strips) {
      const Strip<T> g_strip(grad, of_grad, width), y_strip(output, of_output, width), x_strip(self_grad, to, width);
      strips([&](int64_t first, int64_t n) {
        const Columns<const T> g = g_strip.read(first, n), y = y_strip.read(first, n);
        const Columns<T> x_grad = x_strip.at(first);
        Totals<T> totals;
        if (logarithm) {
          totals.add(length, n, g);
        } else {
          add_made(length, n, totals,
                   [&](int64_t r, int64_t rows, Columns<T> few) { step.products(rows, n, g.from(r), y.from(r), few); });
        }
        T rounded[kWide];
        for (int64_t c = 0; c < n; ++c) rounded[c] = static_cast<T>(totals.of(c));
        (logarithm ? step.log_gradients : step.gradients)(length, n, g, y, rounded, x_grad);
        x_strip.finish(first, n);
      });
    });
  });
  return true;
}

}  // namespace deckle::kernels::cpu::reduce
