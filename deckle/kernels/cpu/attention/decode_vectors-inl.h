// The two products of decoding in vectors along the head dim: each key and value is loaded once for up to four query rows.

#if defined(DECKLE_ATTENTION_DECODE_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DECKLE_ATTENTION_DECODE_VECTORS_INL_H_
#undef DECKLE_ATTENTION_DECODE_VECTORS_INL_H_
#else
#define DECKLE_ATTENTION_DECODE_VECTORS_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "deckle/base/scratch.h"
#include "deckle/kernels/cpu/attention/decode_place.h"
#include "deckle/kernels/cpu/attention/decode_rows-inl.h"
#include "deckle/kernels/cpu/attention/pack-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

inline constexpr int64_t kDecodeKeys = 4;  // scored at a time
// Sums of four rows by four keys or vectors, where there are 32 registers.
inline constexpr int kDecodeBlock = HWY_TARGET == HWY_AVX3 ? 4 : HWY_TARGET == HWY_AVX2 ? 2 : 1;
inline constexpr int64_t kDecodeAheadBytes = 8192;  // between what is computed and what is requested

/// body.operator()<kRows>(first) for blocks of up to four of `count` rows.
template <class Body>
HWY_INLINE void by_rows(int64_t count, const Body& body) {
  int64_t n = 0;
  for (; n + kDecodeBlock <= count; n += kDecodeBlock) body.template operator()<kDecodeBlock>(n);
  if constexpr (kDecodeBlock > 2) {
    if (n + 3 == count) return body.template operator()<3>(n);
    if (n + 2 == count) return body.template operator()<2>(n);
  }
  if constexpr (kDecodeBlock > 1) {
    if (n < count) body.template operator()<1>(n);
  }
}

/// to[r, 0..3] = the products of kRows rows of q with four keys.
template <int kRows, class Rows, typename T>
HWY_INLINE void score_block(const typename Rows::Element* const* k, const T* q, int64_t stride, T* to) {
  const hn::ScalableTag<T> d;
  hn::Vec<decltype(d)> sums[kRows][kDecodeKeys], keys[kDecodeKeys];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int s = 0; s < kDecodeKeys; ++s) sums[r][s] = hn::Zero(d);
  }
  for (int64_t e = 0; e < stride; e += kLanes<T>) {
#pragma GCC unroll 4
    for (int s = 0; s < kDecodeKeys; ++s) keys[s] = Rows::load(d, k[s] + e);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const auto left = hn::LoadU(d, q + r * stride + e);
#pragma GCC unroll 4
      for (int s = 0; s < kDecodeKeys; ++s) sums[r][s] = hn::MulAdd(left, keys[s], sums[r][s]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) sums_of_lanes<kDecodeKeys>(d, sums[r], to + r * kDecodeChunk);
}

/// out[r, kVectors] += p[r, 0..keys) . v[keys, kVectors] for kRows rows; `request(j)` before value j is used.
template <int kRows, int kVectors, class Rows, typename T, class Request>
HWY_INLINE void value_block(int64_t keys, const typename Rows::Element* v, int64_t v_stride, const T* p, T* out,
                            int64_t out_stride, const Request& request) {
  const hn::ScalableTag<T> d;
  hn::Vec<decltype(d)> sums[kRows][kVectors], values[kVectors];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < kVectors; ++c) sums[r][c] = hn::LoadU(d, out + r * out_stride + c * kLanes<T>);
  }
  for (int64_t j = 0; j < keys; ++j, v += v_stride) {
    request(j);
#pragma GCC unroll 4
    for (int c = 0; c < kVectors; ++c) values[c] = Rows::load(d, v + c * kLanes<T>);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const auto weight = hn::Set(d, p[r * kDecodeChunk + j]);
#pragma GCC unroll 4
      for (int c = 0; c < kVectors; ++c) sums[r][c] = hn::MulAdd(weight, values[c], sums[r][c]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < kVectors; ++c) hn::StoreU(sums[r][c], d, out + r * out_stride + c * kLanes<T>);
  }
}

template <typename T, class Rows>
class VectorProducts {
 public:
  using Real = T;

  VectorProducts(Scratch& scratch, const DecodePlace& place)
      : at_(place),
        q_stride_(round_up_lanes<T>(place.problem.head_dim)),
        o_stride_(round_up_lanes<T>(place.problem.value_dim)),
        q_(scratch.take<T>(place.rows * q_stride_)),
        buffer_(scratch.take<T>(kDecodeGroup * std::max(q_stride_, o_stride_))) {
    const AttentionProblem& problem = place.problem;
    const int64_t bytes = problem.kv_heads * problem.head_dim * item_size(problem.dtype);
    // All heads of a few keys before the next keys: memory is read almost in the order in which it lies.
    q_bytes_ = problem.head_dim * item_size(problem.dtype), o_bytes_ = problem.value_dim * item_size(problem.dtype);
    step_ = std::clamp(kDecodeAheadBytes / bytes / kDecodeKeys * kDecodeKeys, kDecodeKeys, kDecodeGroup);
    while (kDecodeGroup % step_ != 0) step_ -= kDecodeKeys;
    for (int64_t n = 0; n < place.rows; ++n) {
      const DecodeRow row(problem, place.sequence.rows, n);
      load_rows(problem.dtype, place.x.q, place.sequence.first_row + row.row, 1, 0, row.head, problem.head_dim,
                static_cast<T>(problem.scale), q_ + n * q_stride_, q_stride_);
    }
  }

  int64_t ahead() const { return step_; }
  T factor() const { return T(1); }  // the scale is in q
  /// What takes the weights of row n: these serve as they are.
  struct Keeper {
    template <class D>
    HWY_INLINE void operator()(D, int64_t, hn::Vec<D>) const {}
  };
  Keeper keeper(int64_t) const { return {}; }

  /// scores[rows, kDecodeChunk] at positions that some row sees; others hold anything.
  void scores(T* scores, const DecodeAhead& ahead) const {
    for (int64_t first = at_.low; first < at_.all.end; first += step_) {
      const KeyRange part = common_part(at_.all, {first, first + step_});
      if (part.empty()) continue;
      for (int64_t g = 0; g < at_.problem.kv_heads; ++g) {
        const auto block =
            Rows::block(at_.problem.dtype, at_.x.k, at_.key(part.begin), part.end - part.begin, g, at_.problem.head_dim, buffer_);
        const simd::RowRequests soon = ahead.of_keys(first, step_, g);
        for (int64_t j = first; j < part.end; j += kDecodeKeys) {
          const typename Rows::Element* k[kDecodeKeys];
          for (int64_t s = 0; s < kDecodeKeys; ++s) {
            request(soon, j + s - first, q_bytes_);
            // One that is there in place of one that is not: no score depends on how many keys there are.
            k[s] = block.at + (std::clamp(j + s, part.begin, part.end - 1) - part.begin) * block.stride;
          }
          by_rows(at_.shared, [&]<int kRows>(int64_t n) HWY_ATTR {
            const int64_t row = g * at_.shared + n;
            score_block<kRows, Rows>(k, q_ + row * q_stride_, q_stride_, scores + row * kDecodeChunk + j);
          });
        }
      }
    }
  }

  /// out[rows, stride] = the sums of weights[rows, kDecodeChunk] by values.
  void values(const T* weights, T* out, int64_t stride, const DecodeAhead& ahead) const {
    for (int64_t n = 0; n < at_.rows; ++n) std::fill_n(out + n * stride, o_stride_, T(0));
    for (int64_t first = at_.low; first < at_.all.end; first += step_) {
      for (int64_t g = 0; g < at_.problem.kv_heads; ++g) add_values(first, g, 0, at_.shared, weights, out, stride, ahead);
    }
  }

  /// The same of one row.
  void values_of_row(int64_t row, const T* weights, T* out, int64_t stride) const {
    const DecodeAhead none(at_, kDecodeChunk, nullptr);
    std::fill_n(out + row * stride, o_stride_, T(0));
    for (int64_t first = at_.low; first < at_.all.end; first += step_) {
      add_values(first, row / at_.shared, row % at_.shared, 1, weights, out, stride, none);
    }
  }

 private:
  static HWY_INLINE void request(const simd::RowRequests& soon, int64_t row, int64_t bytes) {
    if (soon.first == nullptr) return;
    for (int64_t byte = 0; byte < bytes; byte += 64) __builtin_prefetch(soon.first + row * soon.stride + byte, 0, 3);
  }
  static KeyRange common_part(const KeyRange& a, const KeyRange& b) {
    return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
  }

  /// The values from `first` of head g, for `count` rows of the head from `n`. A row reads no value that it does not see.
  HWY_INLINE void add_values(int64_t first, int64_t g, int64_t n, int64_t count, const T* weights, T* out, int64_t stride,
                             const DecodeAhead& ahead) const {
    const KeyRange part = common_part(at_.all, {first, first + step_});
    if (part.empty()) return;
    const auto block =
        Rows::block(at_.problem.dtype, at_.x.v, at_.key(part.begin), part.end - part.begin, g, at_.problem.value_dim, buffer_);
    const auto add = [&]<int kRows>(int64_t row, const KeyRange& range, bool requests) HWY_ATTR {
      const T* p = weights + row * kDecodeChunk + range.begin;
      T* to = out + row * stride;
      const auto* v = block.at + (range.begin - part.begin) * block.stride;
      const simd::RowRequests soon = requests ? ahead.of_values(first, step_, g) : simd::RowRequests();
      const auto request_row = [&](int64_t j) HWY_ATTR { request(soon, part.begin - first + j, o_bytes_); };
      int64_t e = 0;
      for (; e + 4 * kLanes<T> <= o_stride_; e += 4 * kLanes<T>) {
        if (e == 0) {
          value_block<kRows, 4, Rows>(range.end - range.begin, v, block.stride, p, to, stride, request_row);
        } else {
          value_block<kRows, 4, Rows>(range.end - range.begin, v + e, block.stride, p, to + e, stride, [](int64_t) HWY_ATTR {});
        }
      }
      for (; e < o_stride_; e += kLanes<T>)
        value_block<kRows, 1, Rows>(range.end - range.begin, v + e, block.stride, p, to + e, stride, [](int64_t) HWY_ATTR {});
    };
    const int64_t head = g * at_.shared;
    if (part.begin >= at_.common.begin && part.end <= at_.common.end) {
      by_rows(count, [&]<int kRows>(int64_t r) HWY_ATTR { add.template operator()<kRows>(head + n + r, part, r == 0); });
      return;
    }
    for (int64_t r = n; r < n + count; ++r) {
      if (const KeyRange range = common_part(part, at_.seen_by(r)); !range.empty())
        add.template operator()<1>(head + r, range, false);
    }
  }

  const DecodePlace& at_;
  int64_t q_stride_, o_stride_, step_, q_bytes_, o_bytes_;  // bytes: of a key and of a value in memory
  T *q_, *buffer_;
};

}  // namespace HWY_NAMESPACE
}  // namespace deckle::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
