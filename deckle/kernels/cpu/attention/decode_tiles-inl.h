// The two products of decoding in bfloat16 on AMX tiles, keys and values where they lie in memory.
//
// Scores: S^T = K Q^T. Sixteen keys are the rows of the left operand, 32 elements of the head dim each, and the queries of the
// group its right one, transposed once per task.
// Out: O = P V. A row of V read as a row of the right operand holds pairs (v[2c], v[2c + 1]), which the product would contract.
// So a weight p of a key is two rows of the left operand: (p, 0) gives the even columns, and (0, p) the odd ones. Rounding p to
// bfloat16 would cost a bit of the result; it is the sum of two bfloat16, each in rows of its own: a tile holds the even and odd,
// high and low parts of four query rows.
//
// A zero of the left operand does not hide infinities and NaN of the right one. A row whose result is not finite is computed
// again without the values that it does not see, and then in vectors.

#if defined(DECKLE_ATTENTION_DECODE_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DECKLE_ATTENTION_DECODE_TILES_INL_H_
#undef DECKLE_ATTENTION_DECODE_TILES_INL_H_
#else
#define DECKLE_ATTENTION_DECODE_TILES_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "deckle/base/scratch.h"
#include "deckle/kernels/cpu/attention/decode_place.h"
#include "deckle/kernels/cpu/attention/decode_vectors-inl.h"
#include "deckle/kernels/cpu/attention/pack-inl.h"
#include "deckle/kernels/cpu/attention/tile_operands-inl.h"
#include "deckle/kernels/cpu/simd/amx.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_AVX3

inline constexpr int64_t kDecodeParts = 4;          // of a weight: even columns high, low, odd columns high, low
inline constexpr int64_t kDecodeTileBytes = 16384;  // of the keys of all heads in a step
inline constexpr int64_t kWeightStride = kDecodeChunk + simd::kTile;  // an odd number of lines

class TileProducts {
 public:
  using Real = float;

  TileProducts(Scratch& scratch, const DecodePlace& place)
      : at_(place),
        q_units_(tile_units(place.problem.head_dim)),
        v_units_(tile_units(place.problem.value_dim)),
        columns_(simd::round_up_tiles(place.shared)),
        out_rows_(simd::round_up_tiles(kDecodeParts * place.shared)),
        out_stride_(odd_lines(v_units_)) {
    const AttentionProblem& problem = place.problem;
    const int64_t heads = problem.kv_heads;
    step_ =
        std::clamp(kDecodeTileBytes / (heads * problem.head_dim * 2) / simd::kTile * simd::kTile, simd::kTile, 4 * simd::kTile);
    q_t_ = scratch.take<uint32_t>(heads * q_units_ * columns_);
    scores_t_ = scratch.take<float>(heads * step_ * columns_);
    // The last tile of rows reads beyond the weights of a head; what it computes there is not used.
    weights_ = scratch.take<uint32_t>((kDecodeParts * place.rows + simd::kTile) * kWeightStride);
    out_ = scratch.take<float>(heads * out_rows_ * out_stride_);
    copy_ = scratch.take<uint32_t>(step_ * odd_lines(std::max(q_units_, v_units_)));
    std::fill_n(q_t_, heads * q_units_ * columns_, 0u);
    auto* row_units = scratch.take<uint32_t>(q_units_);
    for (int64_t n = 0; n < place.rows; ++n) {
      const DecodeRow row(problem, place.sequence.rows, n);
      std::fill_n(row_units, q_units_, 0u);
      std::memcpy(row_units, row_address(problem.dtype, place.x.q, place.sequence.first_row + row.row, row.head),
                  static_cast<size_t>(2 * problem.head_dim));
      uint32_t* to = q_t_ + n / place.shared * q_units_ * columns_ + n % place.shared;
      for (int64_t u = 0; u < q_units_; ++u) to[u * columns_] = row_units[u];
    }
  }

  int64_t ahead() const { return step_; }
  float factor() const { return static_cast<float>(at_.problem.scale); }

  /// Takes the weights of a row apart: those at positions from j on.
  struct Keeper {
    uint32_t* to;
    int64_t part;
    template <class D>
    HWY_INLINE void operator()(D d, int64_t j, hn::Vec<D> p) const {
      const hn::RebindToUnsigned<D> words;
      const auto high_half = hn::Set(words, 0xffff0000u);
      const auto high = hn::And(hn::BitCast(words, p), high_half);
      const auto rest = hn::BitCast(words, hn::Sub(p, hn::BitCast(d, high)));
      const auto low = hn::And(hn::Add(rest, hn::Set(words, 0x8000u)), high_half);
      hn::StoreU(hn::ShiftRight<16>(high), words, to + j);
      hn::StoreU(hn::ShiftRight<16>(low), words, to + part + j);
      hn::StoreU(high, words, to + 2 * part + j);
      hn::StoreU(low, words, to + 3 * part + j);
    }
  };
  Keeper keeper(int64_t n) const {
    return {weights_of(n / at_.shared) + n % at_.shared * kWeightStride, at_.shared * kWeightStride};
  }

  /// scores[rows + 3, kDecodeChunk] at positions that some row sees; others hold anything.
  void scores(float* scores, const DecodeAhead& ahead) const {
    for (int64_t first = at_.low; first < at_.whole; first += step_) {
      const int64_t keys = std::min(step_, at_.whole - first);
      for (int64_t g = 0; g < at_.problem.kv_heads; ++g) {
        for (int64_t j = first; j < first + keys; ++j) ahead.at_key(j, g);
        const Operand k = operand(at_.x.k, first, keys, at_.all, g, at_.problem.head_dim, q_units_);
        simd::tile_matmul(keys, columns_, q_units_, k.at, k.stride, q_t_ + g * q_units_ * columns_, columns_,
                          scores_t_ + g * step_ * columns_, columns_, false);
      }
      // Whole groups of four rows: those beyond a head's are the next head's, which follow.
      for (int64_t g = 0; g < at_.problem.kv_heads; ++g) {
        transpose(scores_t_ + g * step_ * columns_, columns_, keys, at_.shared, scores + g * at_.shared * kDecodeChunk + first,
                  kDecodeChunk);
      }
    }
  }

  /// out[rows, stride] = the sums of the weights that were kept, `weights` unrounded, by values.
  void values(const float* weights, float* out, int64_t stride, const DecodeAhead& ahead) const {
    for (int64_t first = at_.low; first < at_.whole; first += step_) {
      for (int64_t g = 0; g < at_.problem.kv_heads; ++g) {
        for (int64_t j = first; j < std::min(first + step_, at_.whole); ++j) ahead.at_value(j, g);
        add_values(first, g, at_.all);
      }
    }
    for (int64_t n = 0; n < at_.rows; ++n) {
      if (at_.all.empty()) {
        std::fill_n(out + n * stride, 2 * v_units_, 0.0f);
      } else if (!finish(n, out + n * stride)) {
        again(n, weights, out, stride);
      }
    }
  }

 private:
  struct Operand {
    const uint32_t* at;
    int64_t stride;
  };

  uint32_t* weights_of(int64_t g) const { return weights_ + g * kDecodeParts * at_.shared * kWeightStride; }

  /// `count` rows from `first`, those outside of `visible` zero.
  Operand operand(const AttentionRows& rows, int64_t first, int64_t count, const KeyRange& visible, int64_t g, int64_t n,
                  int64_t units) const {
    const char* const source = row_address(DType::bfloat16, rows, at_.key(first), g);
    const bool words = n == 2 * units && rows.row_stride % 2 == 0 && reinterpret_cast<uintptr_t>(source) % 4 == 0;
    if (words && first >= visible.begin && first + count <= visible.end)
      return {reinterpret_cast<const uint32_t*>(source), rows.row_stride / 2};
    const int64_t stride = odd_lines(units);
    for (int64_t r = 0; r < count; ++r) {
      uint32_t* to = copy_ + r * stride;
      std::fill_n(to, units, 0u);
      if (first + r < visible.begin || first + r >= visible.end) continue;
      std::memcpy(to, row_address(DType::bfloat16, rows, at_.key(first + r), g), static_cast<size_t>(2 * n));
    }
    return {copy_, stride};
  }

  void add_values(int64_t first, int64_t g, const KeyRange& visible) const {
    const int64_t keys = std::min(step_, at_.whole - first);
    const Operand v = operand(at_.x.v, first, keys, visible, g, at_.problem.value_dim, v_units_);
    simd::tile_matmul(kDecodeParts * at_.shared, v_units_, keys, weights_of(g) + first, kWeightStride, v.at, v.stride,
                      out_ + g * out_rows_ * out_stride_, out_stride_, first != at_.low);
  }

  /// Adds the parts of row n up and puts them in order; false if some result is not finite.
  bool finish(int64_t n, float* to) const {
    const hn::ScalableTag<float> d;
    const int64_t part = at_.shared * out_stride_;
    const float* from = out_ + n / at_.shared * out_rows_ * out_stride_ + n % at_.shared * out_stride_;
    bool finite = true;
    for (int64_t c = 0; c < v_units_; c += simd::kTile, from += simd::kTile, to += 2 * simd::kTile) {
      const auto even = hn::Add(hn::LoadU(d, from), hn::LoadU(d, from + part)),
                 odd = hn::Add(hn::LoadU(d, from + 2 * part), hn::LoadU(d, from + 3 * part));
      finite = finite && hn::AllTrue(d, hn::And(hn::IsFinite(even), hn::IsFinite(odd)));
      hn::StoreInterleaved2(even, odd, d, to);
    }
    return finite;
  }

  HWY_NOINLINE void again(int64_t n, const float* weights, float* out, int64_t stride) const {
    const int64_t g = n / at_.shared;
    if (const KeyRange& seen = at_.seen_by(n % at_.shared); seen.begin > at_.all.begin || seen.end < at_.all.end) {
      for (int64_t first = at_.low; first < at_.whole; first += step_) add_values(first, g, seen);
      const bool finite = finish(n, out + n * stride);
      for (int64_t first = at_.low; first < at_.whole; first += step_) add_values(first, g, at_.all);  // for the rows that follow
      if (finite) return;
    }
    Scratch scratch;
    VectorProducts<float, Converted<float>>(scratch, at_).values_of_row(n, weights, out, stride);
  }

  const DecodePlace& at_;
  int64_t q_units_, v_units_, columns_, out_rows_, out_stride_, step_;
  uint32_t *q_t_, *weights_, *copy_;
  float *scores_t_, *out_;
  simd::TileScope tiles_;
};

#endif

}  // namespace HWY_NAMESPACE
}  // namespace deckle::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
