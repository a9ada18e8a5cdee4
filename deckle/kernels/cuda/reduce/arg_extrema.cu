// max, min, argmax and argmin along one dim.                   The first of equal elements; a NaN wins, the first of them
#include <limits>

#include "deckle/kernels/cuda/reduce/reduce.cuh"

namespace deckle::kernels::cuda {
namespace {

template <typename T>
struct Found {
  T value;
  int64_t index;  // -1: none yet
};

template <typename T>
struct Place {
  using Acc = Found<T>;
  bool largest = true;
  bool values = false;  // the element is the first result, its place the second

  __device__ Acc start() const { return {T(0), -1}; }
  __device__ void add(Acc& acc, T x, int64_t i) const { acc = merge(acc, {x, i}); }
  __device__ Acc merge(Acc a, Acc b) const {
    if (a.index < 0) return b;
    if (b.index < 0) return a;
    const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
    if (a_nan != b_nan) return a_nan ? a : b;
    if (!a_nan && a.value != b.value) return (largest ? a.value > b.value : a.value < b.value) ? a : b;
    return a.index < b.index ? a : b;
  }
  __device__ void finish(Acc acc, int64_t, const reduce::Outputs& outputs, int64_t row) const {
    if (values) outputs.first.put(row, acc.value);
    (values ? outputs.second : outputs.first).put(row, acc.index);
  }
};

void place(bool largest, bool values, const Context& context, const View& self, std::optional<int64_t> dim,
           const reduce::Outputs& outputs) {
  const int64_t along = dim.value_or(0);
  const bool one = dim && self.ndim > 0;
  reduce::run_exact(
      [=](auto zero) {
        return Place<decltype(zero)>{largest, values};
      },
      context, self, one ? std::span<const int64_t>(&along, 1) : std::span<const int64_t>(), outputs);
}

}  // namespace

void max(const Context& context, const View& self, int64_t dim, bool, const View& values, const View& indices) {
  place(true, true, context, self, dim, {reduce::output_of(values), reduce::output_of(indices)});
}
void min(const Context& context, const View& self, int64_t dim, bool, const View& values, const View& indices) {
  place(false, true, context, self, dim, {reduce::output_of(values), reduce::output_of(indices)});
}
void argmax(const Context& context, const View& self, std::optional<int64_t> dim, bool, const View& result) {
  place(true, false, context, self, dim, {reduce::output_of(result), {}});
}
void argmin(const Context& context, const View& self, std::optional<int64_t> dim, bool, const View& result) {
  place(false, false, context, self, dim, {reduce::output_of(result), {}});
}

}  // namespace deckle::kernels::cuda
