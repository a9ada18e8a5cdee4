// The mean and the largest value of the rows in each window of a sequence.         values: [rows, inner], result: [W, inner]
//
// Window w of a sequence is its rows [w stride - lead, w stride - lead + size); a mean counts those that exist. Read 4 size /
// stride, write 4 bytes per element; memory-bound, since neighbouring windows share cache lines. The backward pass of the mean
// visits rows, each of which is summed by one thread. Instances: float (float32 and the halves), double.

#include <algorithm>
#include <limits>
#include <type_traits>

#include "deckle/base/check.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/segment/tasks.h"
#include "deckle/kernels/cpu/segment/values.h"

namespace deckle::kernels::cpu {
namespace {

/// The rows of its sequence inside a window.
struct Window {
  int64_t begin, end;

  Window(int64_t w, int64_t size, int64_t stride, int64_t lead, int64_t length)
      : begin(std::max<int64_t>(w * stride - lead, 0)), end(std::min(w * stride - lead + size, length)) {}
};

}  // namespace

void segment_avg_pool1d(const Context&, const View& values, const RaggedView& ragged, const RaggedView& windows, int64_t size,
                        int64_t stride, int64_t lead, const View& result) {
  const int64_t inner = segment::inner_size(values);
  segment::visit_real(values.dtype, [&]<typename T>(TypeTag<T>) {
    const auto op = reduce::sums().of<T>();
    segment::for_components(windows, inner, [&](int64_t b, int64_t first, int64_t columns) {
      const int64_t begin = ragged.offsets[b], length = ragged.offsets[b + 1] - begin;
      CompensatedSum sums[segment::kColumns];
      double means[segment::kColumns];
      for (int64_t at = windows.offsets[b]; at < windows.offsets[b + 1]; ++at) {
        const Window window(at - windows.offsets[b], size, stride, lead, length);
        segment::fold_rows(op, values, ragged, inner, begin + window.begin, begin + window.end, first, columns, sums);
        op.finish(columns, sums, static_cast<double>(window.end - window.begin), means);
        segment::write_row(result, inner, at, first, columns, means);
      }
    });
  });
}

void segment_avg_pool1d_backward(const Context&, const View& gradient, const RaggedView& windows, const RaggedView& ragged,
                                 int64_t size, int64_t stride, int64_t lead, const View& result) {
  const int64_t inner = segment::inner_size(gradient);
  segment::visit_real(gradient.dtype, [&]<typename T>(TypeTag<T>) {
    segment::for_components(ragged, inner, [&](int64_t b, int64_t first, int64_t columns) {
      const int64_t begin = ragged.offsets[b], length = ragged.offsets[b + 1] - begin, first_window = windows.offsets[b];
      const int64_t count = windows.offsets[b + 1] - first_window;
      T sums[segment::kColumns], buffer[segment::kColumns];
      for (int64_t row = 0; row < length; ++row) {
        std::fill_n(sums, columns, T{0});
        const int64_t before = row + lead - size + 1;  // a lower bound of the start of the first window that contains the row
        for (int64_t w = before <= 0 ? 0 : (before + stride - 1) / stride; w < count && w * stride <= row + lead; ++w) {
          const Window window(w, size, stride, lead, length);
          const T share = T{1} / static_cast<T>(window.end - window.begin);
          const T* const g = segment::read_row(gradient, inner, first_window + w, first, columns, buffer);
          for (int64_t c = 0; c < columns; ++c) sums[c] += g[c] * share;
        }
        segment::write_row(result, inner, begin + row, first, columns, sums);
      }
    });
  });
}

void segment_max_pool1d(const Context&, const View& values, const RaggedView& ragged, const RaggedView& windows, int64_t size,
                        int64_t stride, int64_t lead, const View& result, const View& positions) {
  const int64_t inner = segment::inner_size(values);
  segment::visit_real(values.dtype, [&]<typename T>(TypeTag<T>) {
    // Of T's size, so that the loop over columns has one width; SSE2 does not choose among 64-bit integers.
    using Tap = std::conditional_t<sizeof(T) == 4, int32_t, double>;
    segment::for_components(windows, inner, [&](int64_t b, int64_t first, int64_t columns) {
      const int64_t begin = ragged.offsets[b], length = ragged.offsets[b + 1] - begin;
      T best[segment::kColumns], buffer[segment::kColumns];
      Tap taps[segment::kColumns];
      for (int64_t at = windows.offsets[b]; at < windows.offsets[b + 1]; ++at) {
        const Window window(at - windows.offsets[b], size, stride, lead, length);
        check(window.begin < window.end, "a window has no row of its sequence of length {} (expected one or more)", length);
        std::copy_n(segment::read_row(values, inner, begin + window.begin, first, columns, buffer), columns, best);
        std::fill_n(taps, columns, Tap{0});
        for (int64_t row = window.begin + 1; row < window.end; ++row) {
          const T* const x = segment::read_row(values, inner, begin + row, first, columns, buffer);
          const auto tap = static_cast<Tap>(row - window.begin);
          for (int64_t c = 0; c < columns; ++c) {
            // The first NaN wins. No short-circuit operators, so that the loop vectorises.
            const bool better = (x[c] > best[c]) | ((x[c] != x[c]) & (best[c] == best[c]));
            taps[c] = better ? tap : taps[c];
            best[c] = better ? x[c] : best[c];
          }
        }
        segment::write_row(result, inner, at, first, columns, best);
        int64_t* const where = positions.ptr<int64_t>() + at * inner + first;
        for (int64_t c = 0; c < columns; ++c) where[c] = window.begin + static_cast<int64_t>(taps[c]);
      }
    });
  });
}

}  // namespace deckle::kernels::cpu
