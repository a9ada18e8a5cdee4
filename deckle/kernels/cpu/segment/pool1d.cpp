// The mean and the largest value of the rows in each window of a sequence.         values: [rows, inner], result: [W, inner]
//
// Window w of a sequence is its rows [w stride - lead, w stride - lead + size); a mean counts those that exist. Read 4 size /
// stride, write 4 bytes per element; memory-bound, since neighbouring windows share cache lines. The backward pass of the mean
// visits rows, each of which is summed by one thread. Instances: float (float32 and the halves), double.
//
// The largest of windows of three, four sequences of 256 rows of 1024, two threads of an Emerald Rapids, us: float32  bfloat16
//   a pass over the columns for each row, compiled for SSE2                                                  354       281
//   windows.h: the rows of a window in registers                                                             153       155

#include <algorithm>

#include "deckle/base/check.h"
#include "deckle/base/scratch.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/segment/tasks.h"
#include "deckle/kernels/cpu/segment/values.h"
#include "deckle/kernels/cpu/segment/windows.h"

namespace deckle::kernels::cpu {
namespace {

constexpr int64_t kConverted = 1 << 14;  // elements of a window that are converted at a time, if its rows are not longer

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
    const bool direct = values.dtype == dtype_of<T>;
    segment::for_components(windows, inner, [&](int64_t b, int64_t first, int64_t columns) {
      const int64_t begin = ragged.offsets[b], length = ragged.offsets[b + 1] - begin;
      Scratch scratch;
      const int64_t longest = std::min(size, length),
                    piece = std::min(columns, std::max<int64_t>(16, kConverted / std::max<int64_t>(longest, 1)));
      T* const best = direct ? nullptr : scratch.take<T>(piece);
      T* const buffer = direct ? nullptr : scratch.take<T>(longest * piece);  // a window's rows, converted
      for (int64_t at = windows.offsets[b]; at < windows.offsets[b + 1]; ++at) {
        const Window window(at - windows.offsets[b], size, stride, lead, length);
        check(window.begin < window.end, "a window has no row of its sequence of length {} (expected one or more)", length);
        const int64_t rows = window.end - window.begin;
        int64_t* const where = positions.ptr<int64_t>() + at * inner + first;
        if (direct) {
          segment::largest_of_rows(values.ptr<const T>() + (begin + window.begin) * inner + first, inner, rows, columns,
                                   window.begin, result.ptr<T>() + at * inner + first, where);
          continue;
        }
        for (int64_t c = 0; c < columns; c += piece) {
          const int64_t n = std::min(piece, columns - c);
          for (int64_t row = 0; row < rows; ++row)
            segment::read_row(values, inner, begin + window.begin + row, first + c, n, buffer + row * n);
          segment::largest_of_rows(buffer, n, rows, n, window.begin, best, where + c);
          segment::write_row(result, inner, at, first + c, n, best);
        }
      }
    });
  });
}

}  // namespace deckle::kernels::cpu
