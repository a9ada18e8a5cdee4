// Everything that may come between q k^T and the softmax: soft cap, bias, ALiBi, relative-position table, masks; and its
// tangent. Works on transposed tiles [keys, kBlock]: lane = query row. Letters as in docs/attention.md: y before the cap, z
// final.

#if defined(DECKLE_ATTENTION_FEATURES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DECKLE_ATTENTION_FEATURES_INL_H_
#undef DECKLE_ATTENTION_FEATURES_INL_H_
#else
#define DECKLE_ATTENTION_FEATURES_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>

#include "deckle/base/scratch.h"
#include "deckle/kernels/cpu/attention/geometry.h"
#include "deckle/kernels/cpu/attention/pack-inl.h"
#include "deckle/kernels/cpu/attention/plane.h"
#include "deckle/kernels/cpu/attention/scores-inl.h"
#include "deckle/kernels/cpu/simd/math_exp.h"
#include "deckle/kernels/cpu/simd/not_equal.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Keys of a score tile, in every pass.
inline constexpr int64_t kTileKeys = 64;

/// The position of a score tile: rows [row, row + count) and keys [key, key + keys) of its sequence; `lanes` is the row count in
/// whole vectors.
struct TilePlace {
  int64_t row, count, lanes, key, keys;
};

/// Tile buffers for planes.
template <typename T>
struct FeatureScratch {
  T* rows;      // [kBlock, kTileKeys + padding]
  T* plane;     // [kTileKeys, kBlock]
  T* diagonal;  // a value per distance

  static constexpr int64_t kRowStride = kTileKeys + 64 / static_cast<int64_t>(sizeof(T));

  explicit FeatureScratch(Scratch& scratch)
      : rows(scratch.take<T>(kBlock<T> * kRowStride)),
        plane(scratch.take<T>(kTileKeys * kBlock<T>)),
        diagonal(scratch.take<T>(kTileKeys + 2 * kBlock<T>)) {}
};

/// Loads the plane at the tile into to[j, lane], [keys, kBlock]; rows past the count are 0.
template <typename T>
HWY_NOINLINE void load_plane(const PlaneView& view, const TilePlace& at, const FeatureScratch<T>& scratch, T* to) {
  if (view.row_stride != 0 && view.column_stride != 0) {
    for (int64_t r = 0; r < at.lanes; ++r) {
      T* row = scratch.rows + r * scratch.kRowStride;
      const char* source = view.data + ((at.row + r) * view.row_stride + at.key * view.column_stride) * view.item;
      if (r >= at.count) {
        std::fill(row, row + at.keys, T(0));
      } else if (view.column_stride == 1 && view.boolean) {
        for (int64_t j = 0; j < at.keys; ++j) row[j] = source[j] != 0 ? T(1) : T(0);
      } else if (view.column_stride == 1) {
        load_row(view.dtype, source, at.keys, T(1), row);
      } else {
        for (int64_t j = 0; j < at.keys; ++j) row[j] = static_cast<T>(view.get(at.row + r, at.key + j));
      }
    }
    transpose(scratch.rows, scratch.kRowStride, at.lanes, at.keys, to, kBlock<T>);
    return;
  }
  for (int64_t j = 0; j < at.keys; ++j) {
    for (int64_t lane = 0; lane < at.lanes; ++lane) {
      to[j * kBlock<T> + lane] = lane < at.count ? static_cast<T>(view.get(at.row + lane, at.key + j)) : T(0);
    }
    if (view.column_stride == 0) {  // the same for every key
      for (int64_t more = 1; more < at.keys; ++more) std::copy_n(to, at.lanes, to + more * kBlock<T>);
      return;
    }
  }
}

/// The features of one head of one sequence.
template <typename T>
class Features {
 public:
  Features(const AttentionProblem& problem, const AttentionOperands& x, const Sequence& sequence, int64_t head)
      : problem_(problem),
        sequence_(sequence),
        bias_(x.bias, problem.bias_offsets, sequence, head, problem.dtype),
        mask_(problem, sequence, head),
        cap_(static_cast<T>(problem.soft_cap)),
        slope_(x.slopes ? static_cast<const T*>(x.slopes)[head] : T(0)),
        has_slope_(x.slopes != nullptr),
        table_(x.table ? static_cast<const T*>(x.table) + head * (2 * problem.table_reach + 1) : nullptr),
        gaps_(problem.ranges.bounds != nullptr && problem.ranges.count > 1) {}

  /// Whether apply() does anything besides the ranges of LaneRange.
  bool any() const { return bias_ || mask_ || cap_ != T(0) || has_slope_ || table_ != nullptr || gaps_; }
  bool capped() const { return cap_ != T(0); }
  T cap() const { return cap_; }

  /// Turns scores q k^T into z; stores tanh(y / cap) in `tanh_tile` if there is a cap and the tile is given. `bias` [keys,
  /// kBlock] is the bias of the tile if the caller has it.
  void apply(T* scores, int64_t stride, const TilePlace& at, const FeatureScratch<T>& scratch, T* tanh_tile,
             const T* bias = nullptr) const {
    if (bias_ && problem_.bias_before_cap) add_plane(bias_, scores, stride, at, scratch, bias);
    if (capped()) cap_scores(scores, stride, at, tanh_tile);
    if (bias_ && !problem_.bias_before_cap) add_plane(bias_, scores, stride, at, scratch, bias);
    if (has_slope_ || table_ != nullptr) add_positional(scores, stride, at, scratch);
    if (mask_) forbid(scores, stride, at, scratch);
    if (gaps_) forbid_gaps(scores, stride, at);
  }

  /// These features as a tangent: the scaled tangent of q k^T becomes the tangent of z. `primal` has the cap, `tanh_tile` its
  /// tanh; the tangent of y, which second derivatives need, goes to `y_tangent` if given.
  void tangent(const Features& primal, T* scores, int64_t stride, const TilePlace& at, const FeatureScratch<T>& scratch,
               const T* tanh_tile, T* y_tangent) const {
    const hn::ScalableTag<T> d;
    if (bias_ && problem_.bias_before_cap) add_plane(bias_, scores, stride, at, scratch);
    if (primal.capped()) {
      for (int64_t j = 0; j < at.keys; ++j) {
        for (int64_t lane = 0; lane < at.lanes; lane += kLanes<T>) {
          const auto w = hn::LoadU(d, tanh_tile + j * stride + lane), y = hn::LoadU(d, scores + j * stride + lane);
          if (y_tangent != nullptr) hn::StoreU(y, d, y_tangent + j * stride + lane);
          hn::StoreU(hn::Mul(y, hn::NegMulAdd(w, w, hn::Set(d, T(1)))), d, scores + j * stride + lane);
        }
      }
    }
    if (bias_ && !problem_.bias_before_cap) add_plane(bias_, scores, stride, at, scratch);
    if (has_slope_ || table_ != nullptr) add_positional(scores, stride, at, scratch);
  }

  /// Whether some row of the tile may see some of its keys; only ranges with gaps can rule it out.
  bool touches(const TilePlace& at) const {
    if (!gaps_) return true;
    for (int64_t r = 0; r < at.count; ++r) {
      const int32_t* bounds = row_bounds(at.row + r);
      for (int n = 0; n < problem_.ranges.count; ++n) {
        if (std::max<int64_t>(bounds[2 * n], at.key) < std::min<int64_t>(bounds[2 * n + 1], at.key + at.keys)) return true;
      }
    }
    return false;
  }

 private:
  static void add_plane(const PlaneView& view, T* scores, int64_t stride, const TilePlace& at, const FeatureScratch<T>& scratch,
                        const T* loaded = nullptr) {
    const hn::ScalableTag<T> d;
    if (loaded == nullptr) load_plane(view, at, scratch, scratch.plane);
    const T* HWY_RESTRICT plane = loaded != nullptr ? loaded : scratch.plane;
    for (int64_t j = 0; j < at.keys; ++j) {
      for (int64_t lane = 0; lane < at.lanes; lane += kLanes<T>) {
        T* to = scores + j * stride + lane;
        const T* from = plane + j * kBlock<T> + lane;
        if (loaded != nullptr) __builtin_prefetch(from + kTileKeys * kBlock<T>, 0, 2);  // the next tile, which follows in memory
        const auto held = hn::FirstN(d, at.count - lane);  // later rows of `loaded` belong to other tiles
        hn::StoreU(hn::Add(hn::LoadU(d, to), hn::IfThenElseZero(held, hn::LoadU(d, from))), d, to);
      }
    }
  }

  void cap_scores(T* scores, int64_t stride, const TilePlace& at, T* tanh_tile) const {
    const hn::ScalableTag<T> d;
    const auto cap = hn::Set(d, cap_), inverse = hn::Set(d, T(1) / cap_);
    for (int64_t j = 0; j < at.keys; ++j) {
      for (int64_t lane = 0; lane < at.lanes; lane += kLanes<T>) {
        const auto w = tanh(d, hn::Mul(hn::LoadU(d, scores + j * stride + lane), inverse));
        if (tanh_tile != nullptr) hn::StoreU(w, d, tanh_tile + j * stride + lane);
        hn::StoreU(hn::Mul(w, cap), d, scores + j * stride + lane);
      }
    }
  }

  /// Slopes and table depend on the distance alone: one value per diagonal of the tile, then shifted loads.
  void add_positional(T* scores, int64_t stride, const TilePlace& at, const FeatureScratch<T>& scratch) const {
    const hn::ScalableTag<T> d;
    const int64_t farthest =
        at.key + at.keys - 1 - sequence_.diagonal - at.row;  // key position - query position, last key, first row
    for (int64_t m = 0; m < at.keys + at.lanes; ++m) {
      const int64_t distance = farthest - m;
      T value = -slope_ * static_cast<T>(std::abs(distance));
      if (table_ != nullptr)
        value += table_[std::clamp(distance, -problem_.table_reach, problem_.table_reach) + problem_.table_reach];
      scratch.diagonal[m] = value;
    }
    for (int64_t j = 0; j < at.keys; ++j) {
      const T* from = scratch.diagonal + (at.keys - 1 - j);
      for (int64_t lane = 0; lane < at.lanes; lane += kLanes<T>) {
        T* to = scores + j * stride + lane;
        hn::StoreU(hn::Add(hn::LoadU(d, to), hn::LoadU(d, from + lane)), d, to);
      }
    }
  }

  void forbid(T* scores, int64_t stride, const TilePlace& at, const FeatureScratch<T>& scratch) const {
    const hn::ScalableTag<T> d;
    load_plane(mask_, at, scratch, scratch.plane);
    for (int64_t j = 0; j < at.keys; ++j) {
      for (int64_t lane = 0; lane < at.lanes; lane += kLanes<T>) {
        T* to = scores + j * stride + lane;
        const auto seen = not_equal(hn::LoadU(d, scratch.plane + j * kBlock<T> + lane), hn::Zero(d));
        hn::StoreU(hn::IfThenElse(seen, hn::LoadU(d, to), hn::Set(d, -std::numeric_limits<T>::infinity())), d, to);
      }
    }
  }

  void forbid_gaps(T* scores, int64_t stride, const TilePlace& at) const {
    for (int64_t r = 0; r < at.count; ++r) {
      const int32_t* bounds = row_bounds(at.row + r);
      int64_t key = at.key;
      for (int n = 0; n <= problem_.ranges.count; ++n) {
        const bool last = n == problem_.ranges.count;
        if (!last && bounds[2 * n] >= bounds[2 * n + 1]) continue;
        const int64_t gap_end = last ? at.key + at.keys : std::min<int64_t>(bounds[2 * n], at.key + at.keys);
        for (; key < gap_end; ++key) scores[(key - at.key) * stride + r] = -std::numeric_limits<T>::infinity();
        if (!last) key = std::max<int64_t>(key, bounds[2 * n + 1]);
      }
    }
  }

  const int32_t* row_bounds(int64_t row) const {
    return problem_.ranges.bounds + (sequence_.first_row + row) * problem_.ranges.count * 2;
  }

  const AttentionProblem& problem_;
  const Sequence& sequence_;
  PlaneView bias_, mask_;
  T cap_, slope_;
  bool has_slope_;
  const T* table_;
  bool gaps_;
};

}  // namespace HWY_NAMESPACE
}  // namespace deckle::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
