// The mean and the largest value of the rows in each window of a sequence.         values: [rows, inner], result: [W, inner]
//
// Window w of a sequence is its rows [w stride - lead, w stride - lead + size); a mean counts those that exist. Read 4 size /
// stride, write 4 bytes per element; memory-bound, since neighbouring windows share cache lines. The backward pass of the mean
// visits rows, each of which is summed by one thread, in double. Instances: float (float32 and the halves), double.
//
// The largest of windows of three, four sequences of 256 rows of 1024, two threads of an Emerald Rapids, us: float32  bfloat16
//   a pass over the columns for each row, compiled for SSE2                                                  354       281
//   windows.h: the rows of a window in registers                                                             153       155
// Its gradient:
//   zeros, and additions to positions one by one                                                           1,580     1,657
//   windows that share no row write their rows; else each row adds up what came from its windows             286       275
// Of windows of 32, one row apart:
//   each row adds up what came from its windows                                                            4,037     6,054
//   one pass over the windows, with the sums of a window's rows in cache                                   1,395     1,450

#include <algorithm>
#include <bit>

#include "deckle/base/scratch.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/item.h"
#include "deckle/kernels/cpu/segment/empty_windows.h"
#include "deckle/kernels/cpu/segment/tasks.h"
#include "deckle/kernels/cpu/segment/values.h"
#include "deckle/kernels/cpu/segment/weighted_sums.h"
#include "deckle/kernels/cpu/segment/windows.h"

namespace deckle::kernels::cpu {
namespace {

constexpr int64_t kConverted = 1 << 14;   // elements of a window that are converted at a time, if its rows are not longer
constexpr int64_t kManyWindows = 12;      // that share a row
constexpr int64_t kSums = 1 << 14;        // 128 KiB of sums of rows, unless a window is longer
constexpr int64_t kFewestColumns = 16;    // still whole cache lines for long windows
constexpr int64_t kLongWindow = 1 << 18;  // rows whose sums are too many to hold

/// The rows of its sequence inside a window.
struct Window {
  int64_t begin, end;

  Window(int64_t w, int64_t size, int64_t stride, int64_t lead, int64_t length)
      : begin(std::max<int64_t>(w * stride - lead, 0)),
        end(std::min(w * stride - lead + std::min(size, length + lead), length)) {}
  bool has(int64_t row) const { return row >= begin && row < end; }
};

/// A block of columns of one sequence: what came to its windows, and where it goes.
template <typename T>
struct Sequence {
  const View &gradient, &positions, &result;
  int64_t inner;
  int64_t first_window, windows;
  int64_t begin, length;  // rows
  int64_t first, columns;

  bool direct() const { return gradient.dtype == dtype_of<T>; }
  const int64_t* positions_of(int64_t w) const { return positions.ptr<int64_t>() + (first_window + w) * inner + first; }
  const T* gradient_of(int64_t w, T* buffer) const {
    return segment::read_row(gradient, inner, first_window + w, first, columns, buffer);
  }
  T* row(int64_t at) const { return result.ptr<T>() + (begin + at) * inner + first; }
  void write(int64_t at, const T* values) const { segment::write_row(result, inner, begin + at, first, columns, values); }
};

/// Windows that share no row: each writes its rows. Those of no window get 0.
template <typename T>
void write_apart(const Sequence<T>& s, int64_t size, int64_t stride, int64_t lead) {
  constexpr int64_t kRows = 4;  // converted at a time
  T buffer[segment::kColumns], rows[kRows * segment::kColumns], none[segment::kColumns];
  const int64_t most = s.direct() ? segment::kMostRows : kRows;
  const auto functions = segment::window_rows().of<T>();
  std::fill_n(none, s.columns, T{0});
  int64_t done = 0;
  const auto clear_until = [&](int64_t end) {
    for (; done < end; ++done) s.write(done, none);
  };
  for (int64_t w = 0; w < s.windows; ++w) {
    const Window window(w, size, stride, lead, s.length);
    clear_until(std::min(window.begin, s.length));
    const T* const gradient = s.gradient_of(w, buffer);
    while (done < window.end) {
      const int64_t n = std::min(window.end - done, most);
      functions.put(gradient, s.positions_of(w), s.columns, done, n, s.direct() ? s.row(done) : rows,
                    s.direct() ? s.inner : s.columns);
      for (int64_t r = 0; r < n && !s.direct(); ++r) s.write(done + r, rows + r * s.columns);
      done += n;
    }
  }
  clear_until(s.length);
}

/// Each row adds up what came from the windows that have it.
template <typename T>
void add_shared(const Sequence<T>& s, int64_t size, int64_t stride, int64_t lead) {
  Scratch scratch;
  const int64_t most = std::min(s.windows, (size - 1) / stride + 1);
  T* const buffer = s.direct() ? nullptr : scratch.take<T>(most * s.columns);
  const auto functions = segment::window_rows().of<T>();
  T sums[segment::kColumns];
  for (int64_t row = 0; row < s.length; ++row) {
    const int64_t before = row + lead - size + 1;  // a lower bound of the start of the first window that contains the row
    const int64_t from = before <= 0 ? 0 : (before - 1) / stride + 1;
    const int64_t count = std::min(s.windows, (row + lead) / stride + 1) - from;
    if (count <= 0) {
      std::fill_n(sums, s.columns, T{0});
      s.write(row, sums);
      continue;
    }
    for (int64_t w = 0; w < count && !s.direct(); ++w) s.gradient_of(from + w, buffer + w * s.columns);
    const T* const gradients = s.direct() ? s.gradient_of(from, nullptr) : buffer;
    functions.sum_at(gradients, s.direct() ? s.inner : s.columns, s.positions_of(from), s.inner, count, s.columns, row, sums);
    s.write(row, sums);
  }
}

/// The same by one pass over the windows, where each row would be asked for in many: sums of the rows of one window are held, and
/// each is written once no window has it any more. Additions to a row are those of add_shared, in the same order.
template <typename T>
void add_by_window(const Sequence<T>& all, int64_t size, int64_t stride, int64_t lead) {
  const auto held = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(std::min(size, all.length), 1))));
  const int64_t most = std::min(all.columns, std::max(kSums / held, kFewestColumns));
  Scratch scratch;
  double* const sums = scratch.take<double>(held * most);  // row r at r % held
  std::fill_n(sums, held * most, 0.0);
  for (int64_t c = 0; c < all.columns; c += most) {
    Sequence<T> s = all;
    s.first += c;
    s.columns = std::min(most, all.columns - c);
    T buffer[segment::kColumns];
    int64_t done = 0;
    const auto write_until = [&](int64_t end) {
      for (; done < end; ++done) {
        double* const row = sums + (done & (held - 1)) * most;
        for (int64_t i = 0; i < s.columns; ++i) buffer[i] = static_cast<T>(row[i]);
        std::fill_n(row, s.columns, 0.0);
        s.write(done, buffer);
      }
    };
    for (int64_t w = 0; w < s.windows; ++w) {
      const Window window(w, size, stride, lead, s.length);
      if (window.begin >= window.end) continue;
      write_until(window.begin);
      const int64_t* const positions = s.positions_of(w);
      const T* const gradient = s.gradient_of(w, buffer);
      for (int64_t i = 0; i < s.columns; ++i) {
        const int64_t at = positions[i];
        if (window.has(at)) sums[(at & (held - 1)) * most + i] += static_cast<double>(gradient[i]);
      }
    }
    write_until(s.length);
  }
}

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
      segment::WeightedSums<T> sums(gradient, result, inner, first, columns, count);
      for (int64_t row = 0; row < length; ++row) {
        const int64_t before = row + lead - size + 1;  // a lower bound of the start of the first window that contains the row
        const int64_t from = before <= 0 ? 0 : (before - 1) / stride + 1, end = std::min(count, (row + lead) / stride + 1);
        sums.begin(first_window + from);
        for (int64_t w = from; w < end; ++w) {
          const Window window(w, size, stride, lead, length);
          sums.add(1 / static_cast<double>(window.end - window.begin));
        }
        sums.write(begin + row);
      }
    });
  });
}

void segment_max_pool1d(const Context&, const View& values, const RaggedView& ragged, const RaggedView& windows, int64_t size,
                        int64_t stride, int64_t lead, const View& result, const View& positions) {
  segment::check_windows_have_rows(ragged, windows, size, stride, lead);
  const int64_t inner = segment::inner_size(values);
  segment::visit_real(values.dtype, [&]<typename T>(TypeTag<T>) {
    const bool direct = values.dtype == dtype_of<T>;
    const auto functions = segment::window_rows().of<T>();
    segment::for_components(windows, inner, [&](int64_t b, int64_t first, int64_t columns) {
      const int64_t begin = ragged.offsets[b], length = ragged.offsets[b + 1] - begin;
      Scratch scratch;
      const int64_t longest = std::min(size, length),
                    piece = std::min(columns, std::max<int64_t>(16, kConverted / std::max<int64_t>(longest, 1)));
      T* const best = direct ? nullptr : scratch.take<T>(piece);
      T* const buffer = direct ? nullptr : scratch.take<T>(longest * piece);  // a window's rows, converted
      for (int64_t at = windows.offsets[b]; at < windows.offsets[b + 1]; ++at) {
        const Window window(at - windows.offsets[b], size, stride, lead, length);
        const int64_t rows = window.end - window.begin;
        int64_t* const where = positions.ptr<int64_t>() + at * inner + first;
        if (direct) {
          functions.largest(values.ptr<const T>() + (begin + window.begin) * inner + first, inner, rows, columns, window.begin,
                            result.ptr<T>() + at * inner + first, where);
          continue;
        }
        for (int64_t c = 0; c < columns; c += piece) {
          const int64_t n = std::min(piece, columns - c);
          for (int64_t row = 0; row < rows; ++row)
            segment::read_row(values, inner, begin + window.begin + row, first + c, n, buffer + row * n);
          functions.largest(buffer, n, rows, n, window.begin, best, where + c);
          segment::write_row(result, inner, at, first + c, n, best);
        }
      }
    });
  });
}

void segment_max_pool1d_backward(const Context&, const View& gradient, const RaggedView& windows, const View& positions,
                                 const RaggedView& ragged, int64_t size, int64_t stride, int64_t lead, const View& result) {
  segment::check_windows_have_rows(ragged, windows, size, stride, lead);
  const int64_t inner = segment::inner_size(gradient);
  segment::visit_real(gradient.dtype, [&]<typename T>(TypeTag<T>) {
    segment::for_components(ragged, inner, [&](int64_t b, int64_t first, int64_t columns) {
      const int64_t begin = ragged.offsets[b], length = ragged.offsets[b + 1] - begin, first_window = windows.offsets[b];
      const Sequence<T> sequence{gradient, positions, result, inner,  first_window, windows.offsets[b + 1] - first_window,
                                 begin,    length,    first,  columns};
      if (stride >= size)
        write_apart(sequence, size, stride, lead);
      else if (std::min(sequence.windows, (size - 1) / stride + 1) < kManyWindows || std::min(size, length) > kLongWindow)
        add_shared(sequence, size, stride, lead);
      else
        add_by_window(sequence, size, stride, lead);
    });
  });
}

void segment_window_gather(const Context&, const View& values, const RaggedView& ragged, const View& positions,
                           const RaggedView& windows, int64_t size, int64_t stride, int64_t lead, const View& result) {
  segment::check_windows_have_rows(ragged, windows, size, stride, lead);
  const int64_t inner = segment::inner_size(values);
  visit_item(values.dtype, [&]<typename T>(TypeTag<T>) {
    segment::for_components(windows, inner, [&](int64_t b, int64_t first, int64_t columns) {
      const int64_t begin = ragged.offsets[b], length = ragged.offsets[b + 1] - begin;
      const T* const from = values.ptr<const T>() + begin * inner + first;
      for (int64_t at = windows.offsets[b]; at < windows.offsets[b + 1]; ++at) {
        const Window window(at - windows.offsets[b], size, stride, lead, length);
        const int64_t* const chosen = positions.ptr<const int64_t>() + at * inner + first;
        T* const to = result.ptr<T>() + at * inner + first;
        for (int64_t c = 0; c < columns; ++c) to[c] = window.has(chosen[c]) ? from[chosen[c] * inner + c] : T{};
      }
    });
  });
}

}  // namespace deckle::kernels::cpu
