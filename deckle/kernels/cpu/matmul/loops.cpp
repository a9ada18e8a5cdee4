// The loops of products that no engine is called for: rows that lie along k are multiplied with a vector in lanes (dots); rows
// that lie along the results are added up, each times its factor, with the sums in registers: for four rows of the result two
// vectors at a time (sums), for one eight (sum_row).
// Instances: float, double, int64_t and int32_t, these modulo 2^64 and 2^32; dots and sum_row: and rows of halves, widened to
// float on the way, and of uint8_t, widened to int32_t.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/matmul/loops.cpp"
#include "deckle/kernels/cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "deckle/kernels/cpu/matmul/loops.h"
#include "deckle/kernels/cpu/simd/rows.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::HWY_NAMESPACE {
namespace {

/// a b + c; of integers modulo 2^64.
template <class V>
HWY_INLINE V multiply_add(V a, V b, V c) {
  if constexpr (hwy::IsFloat<hn::TFromV<V>>())
    return hn::MulAdd(a, b, c);
  else
    return hn::Add(hn::Mul(a, b), c);
}

template <class Part, typename X>
HWY_INLINE auto load(Part part, const X* from) {
  return part.load(from);
}
/// uint8, as int32.
template <class D>
HWY_INLINE hn::Vec<D> load(FullPart<D> part, const uint8_t* from) {
  return hn::PromoteTo(part.d, hn::LoadU(hn::Rebind<uint8_t, D>(), from));
}
template <class D>
HWY_INLINE hn::Vec<D> load(TailPart<D> part, const uint8_t* from) {
  HWY_ALIGN int32_t lanes[hn::MaxLanes(D())] = {};
  std::copy_n(from, part.count, lanes);
  return hn::Load(part.d, lanes);
}

template <class D, typename X, typename T = hn::TFromD<D>>
HWY_INLINE T dot(D d, int64_t k, const X* x, const T* y) {
  const FullPart<D> whole{d};
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0;
  int64_t i = 0;
  for (; i + 4 * lanes <= k; i += 4 * lanes) {
    sum0 = multiply_add(load(whole, x + i), hn::LoadU(d, y + i), sum0);
    sum1 = multiply_add(load(whole, x + i + lanes), hn::LoadU(d, y + i + lanes), sum1);
    sum2 = multiply_add(load(whole, x + i + 2 * lanes), hn::LoadU(d, y + i + 2 * lanes), sum2);
    sum3 = multiply_add(load(whole, x + i + 3 * lanes), hn::LoadU(d, y + i + 3 * lanes), sum3);
  }
  map_run(d, k - i,
          [&](auto part, int64_t j) HWY_ATTR { sum0 = multiply_add(load(part, x + i + j), part.load(y + i + j), sum0); });
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3))));
}

template <typename X, typename T>
void dots(int64_t rows, int64_t k, const X* x, int64_t stride, const T* y, T* c, int64_t c_stride) {
  const hn::ScalableTag<T> d;
  const FullPart<hn::ScalableTag<T>> whole{d};
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const X *const x0 = x + r * stride, *const x1 = x0 + stride, *const x2 = x1 + stride, *const x3 = x2 + stride;
    auto sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0, next0 = sum0, next1 = sum0, next2 = sum0, next3 = sum0;
    int64_t i = 0;
    for (; i + 2 * lanes <= k; i += 2 * lanes) {
      const auto y0 = hn::LoadU(d, y + i), y1 = hn::LoadU(d, y + i + lanes);
      sum0 = multiply_add(load(whole, x0 + i), y0, sum0);
      sum1 = multiply_add(load(whole, x1 + i), y0, sum1);
      sum2 = multiply_add(load(whole, x2 + i), y0, sum2);
      sum3 = multiply_add(load(whole, x3 + i), y0, sum3);
      next0 = multiply_add(load(whole, x0 + i + lanes), y1, next0);
      next1 = multiply_add(load(whole, x1 + i + lanes), y1, next1);
      next2 = multiply_add(load(whole, x2 + i + lanes), y1, next2);
      next3 = multiply_add(load(whole, x3 + i + lanes), y1, next3);
    }
    map_run(d, k - i, [&](auto part, int64_t j) HWY_ATTR {
      const auto y0 = part.load(y + i + j);
      sum0 = multiply_add(load(part, x0 + i + j), y0, sum0);
      sum1 = multiply_add(load(part, x1 + i + j), y0, sum1);
      sum2 = multiply_add(load(part, x2 + i + j), y0, sum2);
      sum3 = multiply_add(load(part, x3 + i + j), y0, sum3);
    });
    c[r * c_stride] = hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, next0)));
    c[(r + 1) * c_stride] = hn::GetLane(hn::SumOfLanes(d, hn::Add(sum1, next1)));
    c[(r + 2) * c_stride] = hn::GetLane(hn::SumOfLanes(d, hn::Add(sum2, next2)));
    c[(r + 3) * c_stride] = hn::GetLane(hn::SumOfLanes(d, hn::Add(sum3, next3)));
  }
  for (; r < rows; ++r) c[r * c_stride] = dot(d, k, x + r * stride, y);
}

/// One row of c, all columns: eight vectors at a time, then four rows of b at a time for what remains.
template <typename X, typename T>
void sum_row(int64_t n, int64_t k, const T* a, int64_t a_col, const X* b, int64_t b_row, T* c) {
  const hn::ScalableTag<T> d;
  const FullPart<hn::ScalableTag<T>> whole{d};
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t j = 0;
  for (; j + 8 * lanes <= n; j += 8 * lanes) {
    auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
    for (int64_t p = 0; p < k; ++p) {
      const auto factor = hn::Set(d, a[p * a_col]);
      const X* const row = b + p * b_row + j;
      s0 = multiply_add(factor, load(whole, row), s0);
      s1 = multiply_add(factor, load(whole, row + lanes), s1);
      s2 = multiply_add(factor, load(whole, row + 2 * lanes), s2);
      s3 = multiply_add(factor, load(whole, row + 3 * lanes), s3);
      s4 = multiply_add(factor, load(whole, row + 4 * lanes), s4);
      s5 = multiply_add(factor, load(whole, row + 5 * lanes), s5);
      s6 = multiply_add(factor, load(whole, row + 6 * lanes), s6);
      s7 = multiply_add(factor, load(whole, row + 7 * lanes), s7);
    }
    hn::StoreU(s0, d, c + j);
    hn::StoreU(s1, d, c + j + lanes);
    hn::StoreU(s2, d, c + j + 2 * lanes);
    hn::StoreU(s3, d, c + j + 3 * lanes);
    hn::StoreU(s4, d, c + j + 4 * lanes);
    hn::StoreU(s5, d, c + j + 5 * lanes);
    hn::StoreU(s6, d, c + j + 6 * lanes);
    hn::StoreU(s7, d, c + j + 7 * lanes);
  }
  map_run(d, n - j, [&](auto part, int64_t at) HWY_ATTR {
    const X* const column = b + j + at;
    auto even = hn::Zero(d), odd = even;
    int64_t p = 0;
    for (; p + 2 <= k; p += 2) {
      even = multiply_add(hn::Set(d, a[p * a_col]), load(part, column + p * b_row), even);
      odd = multiply_add(hn::Set(d, a[(p + 1) * a_col]), load(part, column + (p + 1) * b_row), odd);
    }
    if (p < k) even = multiply_add(hn::Set(d, a[p * a_col]), load(part, column + p * b_row), even);
    part.store(hn::Add(even, odd), c + j + at);
  });
}

template <typename T>
void sums(int64_t m, int64_t n, int64_t k, const T* a, int64_t a_row, int64_t a_col, const T* b, int64_t b_row, T* c,
          int64_t c_row) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + 4 <= m; i += 4) {
    const T *const a0 = a + i * a_row, *const a1 = a0 + a_row, *const a2 = a1 + a_row, *const a3 = a2 + a_row;
    T *const c0 = c + i * c_row, *const c1 = c0 + c_row, *const c2 = c1 + c_row, *const c3 = c2 + c_row;
    int64_t j = 0;
    for (; j + 2 * lanes <= n; j += 2 * lanes) {
      auto s00 = hn::Zero(d), s01 = s00, s10 = s00, s11 = s00, s20 = s00, s21 = s00, s30 = s00, s31 = s00;
      for (int64_t p = 0; p < k; ++p) {
        const auto b0 = hn::LoadU(d, b + p * b_row + j), b1 = hn::LoadU(d, b + p * b_row + j + lanes);
        const auto f0 = hn::Set(d, a0[p * a_col]), f1 = hn::Set(d, a1[p * a_col]), f2 = hn::Set(d, a2[p * a_col]),
                   f3 = hn::Set(d, a3[p * a_col]);
        s00 = multiply_add(f0, b0, s00);
        s01 = multiply_add(f0, b1, s01);
        s10 = multiply_add(f1, b0, s10);
        s11 = multiply_add(f1, b1, s11);
        s20 = multiply_add(f2, b0, s20);
        s21 = multiply_add(f2, b1, s21);
        s30 = multiply_add(f3, b0, s30);
        s31 = multiply_add(f3, b1, s31);
      }
      hn::StoreU(s00, d, c0 + j);
      hn::StoreU(s01, d, c0 + j + lanes);
      hn::StoreU(s10, d, c1 + j);
      hn::StoreU(s11, d, c1 + j + lanes);
      hn::StoreU(s20, d, c2 + j);
      hn::StoreU(s21, d, c2 + j + lanes);
      hn::StoreU(s30, d, c3 + j);
      hn::StoreU(s31, d, c3 + j + lanes);
    }
    map_run(d, n - j, [&](auto part, int64_t at) HWY_ATTR {
      auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
      for (int64_t p = 0; p < k; ++p) {
        const auto row = part.load(b + p * b_row + j + at);
        s0 = multiply_add(hn::Set(d, a0[p * a_col]), row, s0);
        s1 = multiply_add(hn::Set(d, a1[p * a_col]), row, s1);
        s2 = multiply_add(hn::Set(d, a2[p * a_col]), row, s2);
        s3 = multiply_add(hn::Set(d, a3[p * a_col]), row, s3);
      }
      part.store(s0, c0 + j + at);
      part.store(s1, c1 + j + at);
      part.store(s2, c2 + j + at);
      part.store(s3, c3 + j + at);
    });
  }
  for (; i < m; ++i) sum_row(n, k, a + i * a_row, a_col, b, b_row, c + i * c_row);
}

}  // namespace

const matmul::LoopTable& loop_table() {
  static constexpr matmul::LoopTable table = {{{&dots<float, float>, &sum_row<float, float>},
                                               {&dots<double, double>, &sum_row<double, double>},
                                               {&dots<bfloat16, float>, &sum_row<bfloat16, float>},
                                               {&dots<float16, float>, &sum_row<float16, float>},
                                               {&dots<int64_t, int64_t>, &sum_row<int64_t, int64_t>},
                                               {&dots<int32_t, int32_t>, &sum_row<int32_t, int32_t>},
                                               {&dots<uint8_t, int32_t>, &sum_row<uint8_t, int32_t>}},
                                              {&sums<float>, &sums<double>, &sums<int64_t>, &sums<int32_t>}};
  return table;
}

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deckle::kernels::cpu {

HWY_EXPORT(loop_table);

const matmul::LoopTable& matmul::product_loops() { return DECKLE_SIMD(loop_table)(); }

}  // namespace deckle::kernels::cpu
#endif
