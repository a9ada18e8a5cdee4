// A tile of query rows for the key-stationary passes: the row-side operands of every product, in both layouts.

#if defined(DECKLE_ATTENTION_ROW_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DECKLE_ATTENTION_ROW_TILE_INL_H_
#undef DECKLE_ATTENTION_ROW_TILE_INL_H_
#else
#define DECKLE_ATTENTION_ROW_TILE_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

#include "deckle/base/scratch.h"
#include "deckle/kernels/cpu/attention/arithmetic-inl.h"
#include "deckle/kernels/cpu/attention/features-inl.h"
#include "deckle/kernels/cpu/attention/geometry.h"
#include "deckle/kernels/cpu/attention/pack-inl.h"
#include "deckle/kernels/cpu/attention/scores-inl.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu {
namespace HWY_NAMESPACE {

/// Rows of a tile: two blocks, so that dk and dv are read and written once per 2 x kBlock rows.
template <typename T>
inline constexpr int64_t kTileRows = 2 * kBlock<T>;

/// One operand of a row tile, in both layouts: Operand's, and [block][units of the row][kBlock].
template <class A>
struct RowOperand : Operand<A> {
  using T = typename A::Element;
  using Unit = typename A::Unit;
  Unit* lanes;

  RowOperand(Scratch& scratch, int64_t n)
      : Operand<A>(scratch, kTileRows<T>, n), lanes(scratch.take<Unit>(kTileRows<T> * (units_of<A>(n) + 3))) {}

  const Unit* block(int64_t b) const { return lanes + b * (units_of<A>(this->width) + 3) * kBlock<T>; }

  /// Rows without visible keys (lse +inf) become 0: their contents must not reach a product, as 0 * NaN is NaN.
  void load_seen(DType dtype, const AttentionRows& from, int64_t first, int64_t count, int64_t head, T factor, const T* lse) {
    this->load(dtype, from, first, count, kTileRows<T>, head, factor);
    for (int64_t r = 0; r < count; ++r) {
      if (lse[r] == std::numeric_limits<T>::infinity()) {
        std::memset(this->rows + r * this->row_stride, 0, static_cast<size_t>(units_of<A>(this->width)) * sizeof(Unit));
      }
    }
    this->pair(count);
    for (int64_t b = 0; b * kBlock<T> < count; ++b) {
      block_to_lanes<A>(this->rows + b * kBlock<T> * this->row_stride, this->row_stride, this->width,
                        lanes + b * (units_of<A>(this->width) + 3) * kBlock<T>);
    }
  }
};

/// Which rows, up to kBlocks blocks of them, and which keys of a key block they see; their first key is a multiple of kKeyStep
/// from that of the key block.
template <typename T, int kBlocks = 2, int64_t kKeyStep = 2>
struct RowTile {
  int64_t first = 0, count = 0, blocks = 0;
  KeyRange seen;
  LaneRange<T> range[kBlocks];

  /// False if no row sees a key of `keys`.
  bool place(const AttentionProblem& problem, const Sequence& sequence, int64_t row, const KeyRange& keys) {
    first = row;
    count = std::min<int64_t>(kBlocks * kBlock<T>, sequence.rows - row);
    blocks = (count + kBlock<T> - 1) / kBlock<T>;
    seen = {keys.end, keys.begin};
    for (int64_t b = 0; b < blocks; ++b) {
      range[b] = LaneRange<T>(problem, sequence, row + b * kBlock<T>, std::min<int64_t>(kBlock<T>, count - b * kBlock<T>));
      const KeyRange outer = range[b].outer;
      if (outer.empty()) continue;
      seen.begin = std::max(keys.begin, std::min(seen.begin, outer.begin));
      seen.end = std::min(keys.end, std::max(seen.end, outer.end));
    }
    seen.begin -= (seen.begin - keys.begin) % kKeyStep;  // steps of keys are not split; the mask removes the extra keys
    return !seen.empty();
  }

  TilePlace at(int64_t block, int64_t key, int64_t keys) const {
    return {first + block * kBlock<T>, std::min<int64_t>(kBlock<T>, count - block * kBlock<T>), range[block].lanes, key, keys};
  }
};

template <typename T>
void zero_tile(T* tile, int64_t stride, int64_t keys, int64_t lanes) {
  for (int64_t j = 0; j < keys; ++j) std::fill_n(tile + j * stride, lanes, T(0));
}

}  // namespace HWY_NAMESPACE
}  // namespace deckle::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
