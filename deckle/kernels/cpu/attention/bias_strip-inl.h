// The bias and its gradient for one block of keys of every row, in the layout of the score tiles, while all heads and
// sequences that share the plane use it: transposed once, accumulated contiguously, and stored in the plane's own order at the
// end.

#if defined(DECKLE_ATTENTION_BIAS_STRIP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DECKLE_ATTENTION_BIAS_STRIP_INL_H_
#undef DECKLE_ATTENTION_BIAS_STRIP_INL_H_
#else
#define DECKLE_ATTENTION_BIAS_STRIP_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "deckle/base/scratch.h"
#include "deckle/kernels/cpu/attention/chunks.h"
#include "deckle/kernels/cpu/attention/features-inl.h"
#include "deckle/kernels/cpu/attention/geometry.h"
#include "deckle/kernels/cpu/attention/plane.h"
#include "deckle/kernels/cpu/attention/row_tile-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
class BiasStrip {
 public:
  /// For the tasks of one group, which share one plane, or one per query head of their key head. Off where serves() says no.
  BiasStrip(const AttentionProblem& problem, const AttentionOperands& x, const AttentionOperands& gradient, const KeyTasks& tasks,
            const std::vector<int64_t>& group)
      : problem_(problem) {
    if (!serves(problem, gradient)) return;
    for (int64_t t : group) {
      const KeyTask& task = tasks.tasks[t];
      rows_ = std::max(rows_, problem.rows(task.sequence)), keys_ = std::max(keys_, task.end);
      if (sequences_.empty() || sequences_.back() != task.sequence) sequences_.push_back(task.sequence);
    }
    task_ = &tasks.tasks[group.front()];
    planes_ = gradient.bias.head_stride != 0 ? problem.group() : 1;
    plane_size_ = (rows_ + kBlock<T> - 1) / kBlock<T> * kKeyBlock * kBlock<T>;
    gradient_ = memory_.take<T>(planes_ * plane_size_);
    if (shares(problem, x.bias, gradient.bias)) bias_ = memory_.take<T>(planes_ * plane_size_);
  }

  /// Whether several heads or sequences share the planes of the gradient.
  static bool serves(const AttentionProblem& problem, const AttentionOperands& gradient) {
    const AttentionPlane& bias = gradient.bias;
    const bool over_sequences = problem.bias_offsets == nullptr && bias.sequence_stride == 0;
    const int64_t sharers = (over_sequences ? problem.sequences : 1) * (bias.head_stride == 0 ? problem.heads : 1);
    return bias.data != nullptr && bias.row_stride != 0 && bias.column_stride != 0 && sharers > 1;
  }

  bool on() const { return planes_ != 0; }

  /// Starts the block of keys that begins at `key`: loads its bias and clears its gradient.
  void start(const AttentionOperands& x, int64_t key) {
    first_ = key, count_ = std::min(kKeyBlock, keys_ - key);
    find_rows();
    for (int64_t plane = 0; plane < planes_; ++plane) {
      for_tiles([&](const TilePlace& at) {
        std::memset(tile(gradient_, plane, at), 0, static_cast<size_t>(at.keys * kBlock<T>) * sizeof(T));
      });
    }
    if (!bias_) return;
    Scratch scratch;
    const FeatureScratch<T> feature_scratch(scratch);
    const Sequence sequence(problem_, task_->sequence);
    for (int64_t plane = 0; plane < planes_; ++plane) {
      const PlaneView view(x.bias, problem_.bias_offsets, sequence, task_->kv_head * problem_.group() + plane, problem_.dtype);
      for_tiles([&](const TilePlace& at) { load_plane(view, at, feature_scratch, tile(bias_, plane, at)); });
    }
  }

  /// The bias of a tile, [keys, kBlock]; null if it is not in the strip.
  const T* bias(int64_t head, const TilePlace& at) const { return bias_ ? tile(bias_, head % planes_, at) : nullptr; }

  /// Adds a tile [keys, stride] to the gradient. Rows past the tile's count are ignored: they belong to other tiles.
  void add(int64_t head, const TilePlace& at, const T* values, int64_t stride) {
    const hn::ScalableTag<T> d;
    T* HWY_RESTRICT to = tile(gradient_, head % planes_, at);
    for (int64_t j = 0; j < at.keys; ++j) {
      for (int64_t lane = 0; lane < at.lanes; lane += kLanes<T>) {
        T* sum = to + j * kBlock<T> + lane;
        __builtin_prefetch(sum + kTileKeys * kBlock<T>, 1, 2);  // the next tile follows in memory
        const auto held = hn::FirstN(d, at.count - lane);
        hn::StoreU(hn::Add(hn::LoadU(d, sum), hn::IfThenElseZero(held, hn::LoadU(d, values + j * stride + lane))), d, sum);
      }
    }
  }

  /// f(plane, place, tile of the gradient as rows, their stride) for every tile of the block.
  template <typename F>
  void for_gradient_rows(F f) const {
    Scratch scratch;
    const FeatureScratch<T> feature_scratch(scratch);
    for (int64_t plane = 0; plane < planes_; ++plane) {
      for_tiles([&](const TilePlace& at) {
        transpose(tile(gradient_, plane, at), kBlock<T>, at.keys, at.lanes, feature_scratch.rows, feature_scratch.kRowStride);
        f(plane, at, feature_scratch.rows, feature_scratch.kRowStride);
      });
    }
  }

 private:
  /// Whether `bias` is broadcast as its gradient is.
  static bool shares(const AttentionProblem& problem, const AttentionPlane& bias, const AttentionPlane& gradient) {
    return bias.data != nullptr && bias.row_stride != 0 && bias.column_stride != 0 &&
           (bias.head_stride == 0) == (gradient.head_stride == 0) &&
           (problem.bias_offsets != nullptr || (bias.sequence_stride == 0) == (gradient.sequence_stride == 0));
  }

  T* tile(T* strip, int64_t plane, const TilePlace& at) const {
    return strip + plane * plane_size_ + (at.row / kBlock<T> * kKeyBlock + at.key - first_) * kBlock<T>;
  }

  /// The rows, in whole row tiles, with a visible key in the block: the others are neither loaded nor stored.
  void find_rows() {
    begin_row_ = rows_, end_row_ = 0;
    for (int64_t b : sequences_) {
      const Sequence sequence(problem_, b);
      for (int64_t i = 0; i < sequence.rows; ++i) {
        const KeyRange seen = row_range(problem_, sequence, i);
        if (std::max(seen.begin, first_) >= std::min(seen.end, first_ + count_)) continue;
        begin_row_ = std::min(begin_row_, i / kTileRows<T> * kTileRows<T>);
        end_row_ = std::max(end_row_, std::min(rows_, (i / kTileRows<T> + 1) * kTileRows<T>));
      }
    }
  }

  template <typename F>
  void for_tiles(F f) const {
    for (int64_t row = begin_row_; row < end_row_; row += kBlock<T>) {
      const int64_t count = std::min<int64_t>(kBlock<T>, end_row_ - row);
      for (int64_t offset = 0; offset < count_; offset += kTileKeys) {
        f(TilePlace{row, count, round_up_lanes<T>(count), first_ + offset, std::min(kTileKeys, count_ - offset)});
      }
    }
  }

  const AttentionProblem& problem_;
  const KeyTask* task_ = nullptr;  // one of the group: all use the same planes
  int64_t planes_ = 0, rows_ = 0, keys_ = 0, plane_size_ = 0;
  std::vector<int64_t> sequences_;
  int64_t first_ = 0, count_ = 0;        // the block of keys
  int64_t begin_row_ = 0, end_row_ = 0;  // the rows with a visible key in it
  Scratch memory_;
  T *bias_ = nullptr, *gradient_ = nullptr;  // [planes, row blocks, kKeyBlock, kBlock]
};

}  // namespace HWY_NAMESPACE
}  // namespace deckle::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
