// The two products of decoding in bfloat16 on AMX tiles, keys and values where they lie in memory.
//
// Scores: S^T = K Q^T. Sixteen keys are the rows of the left operand, 32 elements of the head dim each, and the queries of the
// group its right one, transposed once per task.
// Out: O = P V. A row of V read as a row of the right operand holds pairs (v[2c], v[2c + 1]), which the product would contract.
// So a weight p of a key is two rows of the left operand: (p, 0) gives the even columns, and (0, p) the odd ones. Rounding p to
// bfloat16 would cost a bit of the result; it is the sum of two bfloat16, each in rows of its own: a tile holds the even and odd,
// high and low parts of four query rows.
//
// Memory is requested in the order in which it lies, a tile's worth while a tile is used: a burst between products holds them up.
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

inline constexpr int64_t kDecodeTileGroup = 3;      // query heads of a key head, from which on tiles are faster than vectors
inline constexpr int64_t kDecodeParts = 4;          // of a weight: even columns high, low, odd columns high, low
inline constexpr int64_t kDecodeTileBytes = 16384;  // of the keys of all heads in a step, and between use and request
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
    copy_ = scratch.take<uint32_t>(std::max(step_ * odd_lines(q_units_), kSums * step_ * odd_lines(v_units_)));
    std::fill_n(q_t_, heads * q_units_ * columns_, 0u);
    auto* row_units = scratch.take<uint32_t>(q_units_);
    for (int64_t n = 0; n < place.rows; ++n) {
      const DecodeRow row(problem, place.sequence.rows, n);
      std::fill_n(row_units, q_units_, 0u);
      std::memcpy(row_units, row_address(problem.dtype, place.x.q, place.sequence.first_row + row.row, row.head),
                  static_cast<size_t>(2 * problem.head_dim));
      const int64_t g = n / place.shared, column = n % place.shared;
      uint32_t* to = q_t_ + (g * columns_ + column / simd::kTile * simd::kTile) * q_units_ + column % simd::kTile;
      for (int64_t u = 0; u < q_units_; ++u) to[u * simd::kTile] = row_units[u];
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
    const int64_t heads = at_.problem.kv_heads;
    for (int64_t first = at_.low, keys = 0; first < at_.whole; first += keys) {
      keys = keys_from(first);
      for (int64_t g = 0; g < heads; ++g) {
        const Operand k = operand(at_.x.k, first, keys, at_.all, g, at_.problem.head_dim, q_units_, copy_);
        const simd::RowRequests soon = ahead.of_keys(first, keys, g);
        for (int64_t c = 0; c < columns_; c += simd::kTile) {
          simd::tile_scores(keys, q_units_, k.at, k.stride, q_t_ + (g * columns_ + c) * q_units_,
                            scores_t_ + (g * columns_ + c) * step_, c == 0 ? soon : simd::RowRequests());
        }
      }
      // Whole groups of four rows: those beyond a head's are the next head's, which follow.
      for (int64_t g = 0; g < heads; ++g) {
        for (int64_t c = 0; c < at_.shared; c += simd::kTile) {
          transpose(scores_t_ + (g * columns_ + c) * step_, simd::kTile, keys, std::min(simd::kTile, at_.shared - c),
                    scores + (g * at_.shared + c) * kDecodeChunk + first, kDecodeChunk);
        }
      }
    }
  }

  /// out[rows, stride] = the sums of the weights that were kept, `weights` unrounded, by values.
  void values(const float* weights, float* out, int64_t stride, const DecodeAhead& ahead) const {
    add_all_values(0, at_.problem.kv_heads, at_.all, &ahead);
    for (int64_t n = 0; n < at_.rows; ++n) {
      if (at_.all.empty()) {
        std::fill_n(out + n * stride, 2 * v_units_, 0.0f);
      } else if (!finish(n, out + n * stride)) {
        again(n, weights, out, stride);
      }
    }
  }

 private:
  static constexpr int64_t kSums = 4;  // products side by side

  struct Operand {
    const uint32_t* at;
    int64_t stride;
  };

  /// How many keys the step from `first` on has. Groups that are not all there, which are copied, are steps of their own.
  int64_t keys_from(int64_t first) const {
    const int64_t there = at_.all.end / simd::kTile * simd::kTile;
    return first < at_.all.begin || first >= there ? simd::kTile : std::min(step_, there - first);
  }

  uint32_t* weights_of(int64_t g) const { return weights_ + g * kDecodeParts * at_.shared * kWeightStride; }

  /// `count` rows from `first`, those outside of `visible` zero; where they lie, or in `copy`: all heads alike.
  Operand operand(const AttentionRows& rows, int64_t first, int64_t count, const KeyRange& visible, int64_t g, int64_t n,
                  int64_t units, uint32_t* copy) const {
    const char* const source = row_address(DType::bfloat16, rows, at_.key(first), g);
    const bool words = n == 2 * units && rows.row_stride % 2 == 0 && rows.head_stride % 2 == 0 &&
                       reinterpret_cast<uintptr_t>(source) % sizeof(uint32_t) == 0;
    if (words && first >= visible.begin && first + count <= visible.end)
      return {reinterpret_cast<const uint32_t*>(source), rows.row_stride / 2};
    const int64_t stride = odd_lines(units);
    for (int64_t r = 0; r < count; ++r) {
      uint32_t* to = copy + r * stride;
      std::fill_n(to, units, 0u);
      if (first + r < visible.begin || first + r >= visible.end) continue;
      std::memcpy(to, row_address(DType::bfloat16, rows, at_.key(first + r), g), static_cast<size_t>(2 * n));
    }
    return {copy, stride};
  }

  /// The values of heads [head, head + heads).
  void add_all_values(int64_t head, int64_t heads, const KeyRange& visible, const DecodeAhead* ahead) const {
    for (int64_t first = at_.low; first < at_.whole; first += keys_from(first)) add_values(first, head, heads, visible, ahead);
  }

  /// The values of a step.
  void add_values(int64_t first, int64_t head, int64_t heads, const KeyRange& visible, const DecodeAhead* ahead) const {
    const int64_t keys = keys_from(first), columns = v_units_ / simd::kTile, per_head = out_rows_ / simd::kTile * columns,
                  copy_size = step_ * odd_lines(v_units_);
    const int64_t end = (head + heads) * per_head;
    for (int64_t t = head * per_head; t < end; t += kSums) {
      simd::TileSum sums[kSums];
      simd::RowRequests soon;
      Operand v{};
      const int64_t count = std::min(kSums, end - t);
      int64_t last = -1;
      for (int64_t s = 0; s < count; ++s) {
        const int64_t g = (t + s) / per_head, row = (t + s) % per_head / columns * simd::kTile,
                      column = (t + s) % columns * simd::kTile;
        if (g != last) {
          v = operand(at_.x.v, first, keys, visible, g, at_.problem.value_dim, v_units_, copy_ + s * copy_size);
          if (ahead != nullptr) soon = ahead->of_values(first, keys, g);
          last = g;
        }
        sums[s] = {
            weights_of(g) + row * kWeightStride + first, v.at + column, out_ + (g * out_rows_ + row) * out_stride_ + column, {}};
        if (soon.first != nullptr && row == 0) sums[s].requests = {soon.first + 4 * column, soon.stride};
      }
      simd::tile_sums(keys, sums, count, kWeightStride, v.stride, out_stride_, first != at_.low);
    }
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
      add_all_values(g, 1, seen, nullptr);
      const bool finite = finish(n, out + n * stride);
      add_all_values(g, 1, at_.all, nullptr);  // for the rows that follow
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
