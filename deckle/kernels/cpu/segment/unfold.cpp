// The rows of each window of a sequence side by side (im2col), and the transpose.           values: [rows, inner], result: [W,
// size, inner]
//
//   segment_unfold  result[w, t] = values[w stride - lead + t dilation], 0 outside of the sequence
//   segment_fold    result[row] = the sum of values[w, t] over all (w, t) with w stride - lead + t dilation = row
// Memory-bound: unfold reads 4 and writes 4 size / stride bytes per element, fold the other way round; each row is summed by one
// thread, in float or double. Instances: unfold by element size; fold float (float32 and the halves), double.

#include <algorithm>
#include <cstring>

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/segment/tasks.h"

namespace deckle::kernels::cpu {

void segment_unfold(const Context&, const View& values, const RaggedView& ragged, const RaggedView& windows, int64_t size,
                    int64_t stride, int64_t dilation, int64_t lead, const View& result) {
  const int64_t inner = segment::inner_size(values), item = item_size(values.dtype);
  segment::for_components(windows, size * inner, [&](int64_t b, int64_t first, int64_t columns) {
    const int64_t begin = ragged.offsets[b], length = ragged.offsets[b + 1] - begin;
    for (int64_t w = 0; w < windows.offsets[b + 1] - windows.offsets[b]; ++w) {
      char* to = static_cast<char*>(result.data) + ((windows.offsets[b] + w) * size * inner + first) * item;
      for (int64_t at = first; at < first + columns;) {  // one run of a row at a time
        const int64_t tap = at / inner, row = w * stride - lead + tap * dilation;
        const int64_t count = std::min((tap + 1) * inner, first + columns) - at;
        const auto bytes = static_cast<size_t>(count * item);
        if (row >= 0 && row < length)
          std::memcpy(to, static_cast<const char*>(values.data) + ((begin + row) * inner + at % inner) * item, bytes);
        else
          std::memset(to, 0, bytes);
        at += count;
        to += bytes;
      }
    }
  });
}

void segment_fold(const Context&, const View& values, const RaggedView& windows, const RaggedView& ragged, int64_t stride,
                  int64_t dilation, int64_t lead, const View& result) {
  const int64_t size = values.sizes[1], inner = segment::inner_size(result);
  segment::visit_real(values.dtype, [&]<typename T>(TypeTag<T>) {
    segment::for_components(ragged, inner, [&](int64_t b, int64_t first, int64_t columns) {
      const int64_t begin = ragged.offsets[b], first_window = windows.offsets[b];
      const int64_t count = windows.offsets[b + 1] - first_window;
      T sums[segment::kColumns], buffer[segment::kColumns];
      for (int64_t row = begin; row < ragged.offsets[b + 1]; ++row) {
        std::fill_n(sums, columns, T{0});
        for (int64_t tap = 0; tap < size; ++tap) {
          const int64_t start = row - begin + lead - tap * dilation;  // of the window with the row at this tap, times stride
          if (start < 0) break;
          if (start % stride != 0 || start / stride >= count) continue;
          const int64_t place = (first_window + start / stride) * size + tap;
          const T* const x = segment::read_row(values, inner, place, first, columns, buffer);
          for (int64_t c = 0; c < columns; ++c) sums[c] += x[c];
        }
        segment::write_row(result, inner, row, first, columns, sums);
      }
    });
  });
}

}  // namespace deckle::kernels::cpu
