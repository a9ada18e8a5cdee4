#include "deckle/kernels/cpu/reduce/layout.h"

#include <algorithm>
#include <type_traits>

#include "deckle/kernels/cpu/simd/convert.h"
#include "deckle/kernels/cpu/simd/transpose.h"

namespace deckle::kernels::cpu::reduce {
namespace {

constexpr int64_t kWidth = 64, kDepth = 16;  // rows and elements transposed at a time: whole cache lines on both sides

void append(Layout::Dims& dims, int64_t size, int64_t stride) {
  if (size == 1) return;
  if (dims.count > 0 && dims.strides[dims.count - 1] == stride * size) {
    dims.sizes[dims.count - 1] *= size;
    dims.strides[dims.count - 1] = stride;
    return;
  }
  dims.sizes[dims.count] = size;
  dims.strides[dims.count++] = stride;
}

char* address(const View& view, int64_t offset) { return static_cast<char*>(view.data) + offset * item_size(view.dtype); }

/// Calls body(offset, stride, done, run) for the runs along the last dim that cover elements [from, from + count).
template <typename Body>
void visit_runs(const Layout::Dims& dims, int64_t from, int64_t count, Body body) {
  if (count == 0) return;
  if (dims.count == 0) return body(int64_t{0}, int64_t{1}, int64_t{0}, count);
  const int last = dims.count - 1;
  const int64_t size = dims.sizes[last], stride = dims.strides[last];
  int64_t at[kMaxDims];
  int64_t index = from, offset = 0;
  for (int d = last; d >= 0; --d) {
    at[d] = index % dims.sizes[d];
    index /= dims.sizes[d];
    offset += at[d] * dims.strides[d];
  }
  for (int64_t done = 0; done < count;) {
    const int64_t run = std::min(size - at[last], count - done);
    body(offset, stride, done, run);
    done += run;
    at[last] += run;
    offset += run * stride;
    for (int d = last; d > 0 && at[d] == dims.sizes[d]; --d) {
      at[d] = 0;
      ++at[d - 1];
      offset += dims.strides[d - 1] - dims.sizes[d] * dims.strides[d];
    }
  }
}

/// to[c * to_stride + r] = from[r * from_stride + c]
template <typename T>
void transpose(const T* from, int64_t from_stride, int64_t rows, int64_t cols, T* to, int64_t to_stride) {
  using Word = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  simd::transpose(reinterpret_cast<const Word*>(from), from_stride, rows, cols, reinterpret_cast<Word*>(to), to_stride);
}

/// gather_rows, or scatter_rows of a block of const T.
template <bool kGather, typename Block>
void move_rows(const View& view, const Layout& layout, int64_t row, int64_t rows, int64_t from, int64_t count, Block* block) {
  using T = std::remove_const_t<Block>;
  const auto move = [&](int64_t offset, int64_t stride, int64_t n, auto* elements) {
    if constexpr (kGather)
      simd::load_run(address(view, offset), view.dtype, stride, n, elements);
    else
      simd::store_run(elements, n, address(view, offset), view.dtype, stride);
  };
  if (count == layout.length && layout.dense_rows()) return move(row * count, 1, rows * count, block);  // short rows by the block
  const bool lines = layout.kept.count > 0 && layout.kept.strides[layout.kept.count - 1] == 1 &&
                     (layout.reduced.count == 0 || layout.reduced.strides[layout.reduced.count - 1] != 1);
  if (!lines) {
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t start = layout.kept.offset(row + r);
      visit_runs(layout.reduced, from, count, [&](int64_t offset, int64_t stride, int64_t done, int64_t run) {
        move(start + offset, stride, run, block + r * count + done);
      });
    }
    return;
  }
  visit_runs(layout.kept, row, rows, [&](int64_t start, int64_t, int64_t first, int64_t width) {
    visit_runs(layout.reduced, from, count, [&](int64_t offset, int64_t stride, int64_t done, int64_t run) {
      T lines[kDepth][kWidth];
      for (int64_t w = 0; w < width; w += kWidth) {
        const int64_t n = std::min(kWidth, width - w);
        for (int64_t i = 0; i < run; i += kDepth) {
          const int64_t deep = std::min(kDepth, run - i);
          Block* const part = block + (first + w) * count + done + i;
          if constexpr (!kGather) transpose(part, count, n, deep, lines[0], kWidth);
          for (int64_t k = 0; k < deep; ++k) move(start + w + offset + (i + k) * stride, 1, n, lines[k]);
          if constexpr (kGather) transpose(lines[0], kWidth, deep, n, part, count);
        }
      }
    });
  });
}

}  // namespace

int64_t Layout::Dims::numel() const {
  int64_t n = 1;
  for (int d = 0; d < count; ++d) n *= sizes[d];
  return n;
}

int64_t Layout::Dims::offset(int64_t index) const {
  int64_t elements = 0;
  for (int d = count - 1; d >= 0; --d) {
    elements += index % sizes[d] * strides[d];
    index /= sizes[d];
  }
  return elements;
}

Layout::Layout(const View& view, std::span<const int64_t> dims, Order order) {
  // Whether dim `a` goes outside of dim `b`: by stride, and one that repeats elements outside of all.
  const auto outside = [&](int a, int b) {
    return view.strides[b] != 0 && (view.strides[a] == 0 || view.strides[a] > view.strides[b]);
  };
  int inner[kMaxDims], count = 0;
  for (int d = 0; d < view.ndim; ++d) {
    if (!dims.empty() && std::find(dims.begin(), dims.end(), d) == dims.end()) {
      append(kept, view.sizes[d], view.strides[d]);
      rows *= view.sizes[d];
      continue;
    }
    int at = count++;
    for (; order == Order::any && at > 0 && outside(d, inner[at - 1]); --at) inner[at] = inner[at - 1];
    inner[at] = d;
  }
  for (int i = 0; i < count; ++i) {
    append(reduced, view.sizes[inner[i]], view.strides[inner[i]]);
    length *= view.sizes[inner[i]];
  }
}

bool Layout::dense_rows() const {
  if (reduced.count > 1 || kept.count > 1) return false;
  return (reduced.count == 0 || reduced.strides[0] == 1) && (kept.count == 0 || kept.strides[0] == length);
}

template <typename T>
void gather_rows(const View& view, const Layout& layout, int64_t row, int64_t rows, int64_t from, int64_t count, T* block) {
  move_rows<true>(view, layout, row, rows, from, count, block);
}

template <typename T>
void scatter_rows(const T* block, const View& view, const Layout& layout, int64_t row, int64_t rows) {
  move_rows<false>(view, layout, row, rows, 0, layout.length, block);
}

template void gather_rows(const View&, const Layout&, int64_t, int64_t, int64_t, int64_t, float*);
template void gather_rows(const View&, const Layout&, int64_t, int64_t, int64_t, int64_t, double*);
template void gather_rows(const View&, const Layout&, int64_t, int64_t, int64_t, int64_t, int64_t*);
template void scatter_rows(const float*, const View&, const Layout&, int64_t, int64_t);
template void scatter_rows(const double*, const View&, const Layout&, int64_t, int64_t);
template void scatter_rows(const int64_t*, const View&, const Layout&, int64_t, int64_t);

}  // namespace deckle::kernels::cpu::reduce
