// The sum of the products of two vectors' elements, floating ones of one dtype.     Reads both once (8 bytes, 2 FLOPs)
//
// Products are rounded to T and summed as reduce/sum.cpp sums elements, by pieces that are combined in order; a piece that leaves
// float is added again in double, products and all.
// Instances: float (float32 and, widened in registers or through a buffer, the halves), double.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/reduce/dot.cpp"
#include "deckle/kernels/cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "deckle/base/parallel.h"
#include "deckle/base/scratch.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cpu/simd/convert.h"
#include "deckle/kernels/cpu/simd/rows.h"

#ifndef DECKLE_KERNELS_CPU_REDUCE_DOT_ONCE
#define DECKLE_KERNELS_CPU_REDUCE_DOT_ONCE
namespace deckle::kernels::cpu {

struct DotTable {
  double (*f32)(int64_t n, const float* x, const float* y);
  double (*f64)(int64_t n, const double* x, const double* y);
  double (*bf16)(int64_t n, const bfloat16* x, const bfloat16* y);
};

}  // namespace deckle::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::HWY_NAMESPACE {
namespace {

template <typename T, typename S = T>
double products(int64_t n, const S* x, const S* y) {
  const hn::ScalableTag<T> d;
  const double sum = sum_run(d, n, [&](auto part, int64_t i) HWY_ATTR { return hn::Mul(part.load(x + i), part.load(y + i)); });
  if (sizeof(T) == 8 || std::isfinite(sum)) return sum;
  CompensatedSum wide;
  for (int64_t i = 0; i < n; ++i) wide.add(static_cast<double>(x[i]) * static_cast<double>(y[i]));
  return wide.total();
}

}  // namespace

DotTable dot_table() { return {&products<float>, &products<double>, &products<float, bfloat16>}; }

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deckle::kernels::cpu {

HWY_EXPORT(dot_table);

namespace {

constexpr int64_t kPiece = 65536;   // elements of one partial sum
constexpr int64_t kWidened = 4096;  // of them at a time, in the first cache

double piece(const DotTable& table, const View& self, const View& other, int64_t from, int64_t n) {
  switch (self.dtype) {
    case DType::float32:
      return table.f32(n, self.ptr<const float>() + from, other.ptr<const float>() + from);
    case DType::float64:
      return table.f64(n, self.ptr<const double>() + from, other.ptr<const double>() + from);
    case DType::bfloat16:
      return table.bf16(n, self.ptr<const bfloat16>() + from, other.ptr<const bfloat16>() + from);
    default:
      break;
  }
  float x[kWidened], y[kWidened];
  CompensatedSum total;
  const int64_t item = item_size(self.dtype);
  for (int64_t done = 0; done < n; done += kWidened) {
    const int64_t some = std::min(kWidened, n - done), at = (from + done) * item;
    simd::load_run(static_cast<const char*>(self.data) + at, self.dtype, 1, some, x);
    simd::load_run(static_cast<const char*>(other.data) + at, other.dtype, 1, some, y);
    total.add(table.f32(some, x, y));
  }
  return total.total();
}

}  // namespace

void sum_of_products(const Context&, const View& self, const View& other, const View& result) {
  const DotTable table = DECKLE_SIMD(dot_table)();
  const int64_t n = self.numel(), pieces = (n + kPiece - 1) / kPiece;
  Scratch scratch;
  double* const partial = scratch.take<double>(std::max<int64_t>(pieces, 1));
  parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) partial[p] = piece(table, self, other, p * kPiece, std::min(kPiece, n - p * kPiece));
  });
  CompensatedSum total;
  for (int64_t p = 0; p < pieces; ++p) total.add(partial[p]);
  const double value = total.total();
  simd::store_run(&value, 1, result.data, result.dtype, 1);
}

}  // namespace deckle::kernels::cpu
#endif
