// Running sums along one dim, from the front or from the back.
// Every sum carries the rounding errors of those before it in double and is rounded once; integers add up in int64_t.
// Rows whose elements lie one behind another are scanned by scan_rows.cuh, others by scan.cuh.
#include "deckle/kernels/cuda/reduce/rows.cuh"
#include "deckle/kernels/cuda/reduce/scan.cuh"
#include "deckle/kernels/cuda/reduce/scan_rows.cuh"

namespace deckle::kernels::cuda {
namespace {

/// Lines along a dim: one group of them.
struct Along {
  int64_t count = 0;  // elements of a line

  __device__ int64_t begin(int64_t) const { return 0; }
  __device__ int64_t length(int64_t) const { return count; }
  __device__ int64_t place(int64_t i) const { return i; }
};

/// Kinds see rows and columns: rows are the elements of a line, columns the lines, whose places are looked up.
template <class K>
struct Placed : K {
  reduce::Places from, to;
  using typename K::Acc;

  template <typename T>
  __device__ Acc of(int64_t row, int64_t line) const {
    return K::template of<T>(row, from.offset(line));
  }
  __device__ void put(const Acc& acc, int64_t row, int64_t line) const { K::put(acc, row, to.offset(line)); }
};

template <class K, typename T>
void run(const Context& context, const View& self, int64_t dim, bool reverse, const View& result) {
  const reduce::Layout from(self, dim), to(result, dim);
  Placed<K> kind;
  kind.from = reduce::Places(from.kept);
  kind.to = reduce::Places(to.kept);
  kind.elements = {self.data,
                   result.data,
                   self.dtype,
                   result.dtype,
                   self.ndim > 0 ? self.strides[dim] : 1,
                   1,
                   result.ndim > 0 ? result.strides[dim] : 1,
                   1};
  if (kind.elements.from_row == 1 && kind.elements.to_row == 1) {
    const K flat{kind.elements};
    return scan::run_rows<T>(context, {kind.from, kind.to, from.rows, from.length, 1, from.length, reverse}, flat);
  }
  Along lines;
  lines.count = from.length;
  scan::run<T>(context, lines, kind, 1, from.rows, from.length, reverse);
}

}  // namespace

void cumsum(const Context& context, const View& self, int64_t dim, bool reverse, const View& result) {
  if (self.numel() == 0) return;
  const deckle::cuda::DeviceGuard guard(context.device);
  if (is_floating(self.dtype))
    run<scan::CompensatedSum, double>(context, self, dim, reverse, result);
  else
    run<scan::IntegerSum, int64_t>(context, self, dim, reverse, result);
}

}  // namespace deckle::kernels::cuda
