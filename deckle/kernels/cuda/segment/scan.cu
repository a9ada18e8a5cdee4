// Running sums and extrema over the rows of each component, column by column, and the rows of the extrema.     values: [rows,
// inner] Sums as those of dense tensors (reduce/scan.cuh). Extrema: ties go to the last; a NaN wins and stays.
#include <algorithm>

#include "deckle/kernels/cuda/reduce/scan.cuh"
#include "deckle/kernels/cuda/segment/fold.cuh"

namespace deckle::kernels::cuda {
namespace {

struct Lines {
  segment::DeviceRagged ragged;
  __device__ int64_t begin(int64_t component) const { return ragged.offsets[component]; }
  __device__ int64_t length(int64_t component) const { return ragged.offsets[component + 1] - ragged.offsets[component]; }
  __device__ int64_t place(int64_t i) const { return ragged.row(i); }
};

/// The extremum so far and its row, -1: none yet. a's elements come first.
template <typename V>
struct Running {
  struct Acc {
    V value;
    int64_t row;
  };
  segment::Values values, result;
  int64_t* rows;
  bool largest;

  __device__ Acc start() const { return {V(0), -1}; }
  template <typename T>
  __device__ Acc of(int64_t row, int64_t column) const {
    return {values.get<V>(row, column), row};
  }
  __device__ Acc merge(const Acc& a, const Acc& b) const {
    if (a.row < 0) return b;
    if (b.row < 0) return a;
    const bool replaces = b.value != b.value || (largest ? b.value >= a.value : b.value <= a.value);
    return replaces ? b : a;
  }
  __device__ void put(const Acc& acc, int64_t row, int64_t column) const {
    result.put(acc.value, row, column);
    rows[row * values.inner + column] = acc.row;
  }
};

template <typename T, class K>
void run(const Context& context, const RaggedView& ragged, int64_t inner, const K& kind, bool reverse) {
  int64_t longest = 0;
  for (int64_t b = 0; b < ragged.components; ++b) longest = std::max(longest, ragged.offsets[b + 1] - ragged.offsets[b]);
  const deckle::cuda::DeviceGuard guard(context.device);
  const segment::Uploaded uploaded(context, ragged);
  scan::run<T>(context, Lines{uploaded.ragged()}, kind, ragged.components, inner, longest, reverse);
}

void extrema(bool largest, const Context& context, const View& values, const RaggedView& ragged, const View& result,
             const View& rows) {
  const segment::Values from(values), to(result);
  if (is_floating(values.dtype))
    run<double>(context, ragged, from.inner, Running<double>{from, to, rows.ptr<int64_t>(), largest}, false);
  else
    run<int64_t>(context, ragged, from.inner, Running<int64_t>{from, to, rows.ptr<int64_t>(), largest}, false);
}

}  // namespace

void segment_cumsum(const Context& context, const View& values, const RaggedView& ragged, bool reverse, const View& sums) {
  const int64_t inner = segment::Values(values).inner;
  const scan::Elements elements{values.data, sums.data, values.dtype, sums.dtype, inner, 1, inner, 1};
  if (is_floating(values.dtype))
    run<double>(context, ragged, inner, scan::CompensatedSum{elements}, reverse);
  else
    run<int64_t>(context, ragged, inner, scan::IntegerSum{elements}, reverse);
}
void segment_cummax(const Context& context, const View& values, const RaggedView& ragged, const View& result, const View& rows) {
  extrema(true, context, values, ragged, result, rows);
}
void segment_cummin(const Context& context, const View& values, const RaggedView& ragged, const View& result, const View& rows) {
  extrema(false, context, values, ragged, result, rows);
}

}  // namespace deckle::kernels::cuda
