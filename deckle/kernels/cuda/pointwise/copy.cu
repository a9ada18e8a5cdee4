// Copies of any strides and dtypes, and one value everywhere: pointwise expressions of one input.
#include "deckle/kernels/cuda/pointwise/functions.cuh"
#include "deckle/kernels/cuda/pointwise/kernels.cuh"
#include "deckle/kernels/cuda/pointwise/transposed.h"

namespace deckle::kernels::cuda {
namespace {

struct SameFormula {
  template <class D, class V = hn::Vec<D>>
  HWY_INLINE V operator()(D, V x) const {
    return x;
  }
};

/// The type that holds every element of a dtype exactly.
DType exact(DType dtype) {
  if (is_integral(dtype)) return DType::int64;
  return dtype == DType::float64 ? DType::float64 : DType::float32;
}

}  // namespace

void copy(const Context& context, const View& source, const View& target) {
  if (pointwise::copy_transposed(context, source, target)) return;
  pointwise::run(pointwise::kernels_with_integers<SameFormula, 1>(), context, exact(source.dtype), {&source, 1}, {}, target);
}

void fill(const Context& context, const Number& value, const View& target) {
  pointwise::run(pointwise::kernels_with_integers<SameFormula, 1>(), context, exact(target.dtype), {}, {&value, 1}, target);
}

}  // namespace deckle::kernels::cuda
