// logsumexp along one dim: max + log sum exp(x - max).                          Reads every element once; exp once
//
// A row of -inf gives -inf, a row with +inf gives +inf. Instances: float (float32 and the halves), double.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/reduce/logsumexp.cpp"
#include "deckle/kernels/cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "deckle/base/scratch.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/reduce/by_rows.h"
#include "deckle/kernels/cpu/reduce/softmax.h"
#include "deckle/kernels/cpu/reduce/softmax_columns.h"
#include "deckle/kernels/cpu/simd/log_sum_exp.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::HWY_NAMESPACE {
namespace {

template <typename T>
void logsumexp_rows(int64_t rows, int64_t n, const T* x, double* y) {
  for (int64_t r = 0; r < rows; ++r, x += n) y[r] = log_sum_exp(n, x);
}

}  // namespace

RealTable<reduce::LogSumExpRows> logsumexp_table() { return {{&logsumexp_rows<float>}, {&logsumexp_rows<double>}}; }

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deckle::kernels::cpu {

HWY_EXPORT(logsumexp_table);

RealTable<reduce::LogSumExpRows> reduce::logsumexp_rows() { return DECKLE_SIMD(logsumexp_table)(); }

void logsumexp(const Context&, const View& self, int64_t dim, bool, const View& result) {
  if (reduce::logsumexp_columns(self, dim, result)) return;
  reduce::logsumexp_rows().visit(self.dtype, [&]<typename T>(TypeTag<T>, const auto& functions) {
    reduce::by_rows<T>(std::array{&self}, std::array<const View*, 0>{}, dim,
                       [&](int64_t first, int64_t rows, int64_t n, const auto& x, const auto&) {
                         Scratch scratch;
                         auto* const values = scratch.take<double>(rows);
                         functions.logsumexp(rows, n, x[0], values);
                         simd::store_run(values, rows, static_cast<char*>(result.data) + first * item_size(result.dtype),
                                         result.dtype, 1);
                       });
  });
}

}  // namespace deckle::kernels::cpu
#endif
