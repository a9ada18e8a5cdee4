// Gradients of bias, slopes, table and sinks, reduced to their broadcast shapes while the score gradients are in cache.
//
// Sums have one owner each and a fixed order. Tasks that share elements of a bias gradient, because the bias is broadcast over
// heads or sequences, belong to one group (chunks.h); the backward accumulates them in strips (bias_strip-inl.h), the other
// passes in place (in a copy of T if dtype is narrower). Row sums go to one number per (chunk, row, head), tables to one copy per
// task: added in order at the end. The backward needs no sum for a bias with one number per row of keys: P sums to 1 there, so
// the sum of dZ follows from the row's statistics, without Delta's rounding error from out (M of them would add up, where the
// truth is 0).

#if defined(DECKLE_ATTENTION_FEATURE_GRADIENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DECKLE_ATTENTION_FEATURE_GRADIENTS_INL_H_
#undef DECKLE_ATTENTION_FEATURE_GRADIENTS_INL_H_
#else
#define DECKLE_ATTENTION_FEATURE_GRADIENTS_INL_H_
#endif

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "deckle/base/parallel.h"
#include "deckle/base/scratch.h"
#include "deckle/kernels/cpu/attention/bias_strip-inl.h"
#include "deckle/kernels/cpu/attention/chunks.h"
#include "deckle/kernels/cpu/attention/features-inl.h"
#include "deckle/kernels/cpu/attention/plane.h"
#include "deckle/kernels/cpu/attention/row_statistics-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Which tasks share elements of the bias gradient, and in how many copies it is accumulated: several if they are small relative
/// to q, since splitting the keys finely instead costs a buffer of the size of dq per chunk.
inline SharedSums shared_bias_sums(const AttentionProblem& problem, const AttentionOperands& gradient) {
  const AttentionPlane& bias = gradient.bias;
  if (bias.data == nullptr || bias.column_stride == 0) return {};
  SharedSums shared{problem.bias_offsets == nullptr && bias.sequence_stride == 0, bias.head_stride == 0, 1};
  int64_t rows = 0, most_rows = 0, most_keys = 0;
  for (int64_t b = 0; b < problem.sequences; ++b) {
    rows += problem.rows(b);
    most_rows = std::max(most_rows, problem.rows(b)), most_keys = std::max(most_keys, problem.keys(b));
  }
  const int64_t merged = (shared.over_sequences ? problem.sequences : 1) * (shared.over_heads ? problem.kv_heads : 1);
  const int64_t plane = (bias.row_stride != 0 ? most_rows : 1) * most_keys * (shared.over_sequences ? 1 : problem.sequences) *
                        (shared.over_heads ? 1 : problem.heads);
  shared.copies = std::clamp<int64_t>(2 * rows * problem.heads * problem.head_dim / std::max<int64_t>(plane, 1), 1,
                                      std::min(kMaxChunks, std::max<int64_t>(merged, 1)));
  return shared;
}

template <typename T>
class FeatureGradients {
 public:
  /// `in_strips`: the gradient of a bias that tasks share comes by store_strip().
  FeatureGradients(const AttentionProblem& problem, const AttentionOperands& gradient, const KeyTasks& tasks,
                   bool in_strips = false)
      : problem_(problem),
        gradient_(gradient),
        tasks_(tasks),
        in_strips_(in_strips && BiasStrip<T>::serves(problem, gradient)),
        rows_(batch_rows(problem)),
        table_size_(2 * problem.table_reach + 1) {
    const int64_t partials = tasks.most_chunks * rows_ * problem.heads;
    if (gradient.slopes != nullptr) slope_rows_.assign(partials, T(0));
    if (by_row()) bias_rows_.assign(partials, T(0));
    if (gradient.table != nullptr) table_.assign(tasks.tasks.size() * problem.group() * table_size_, T(0));
    if (gradient.bias.data != nullptr) prepare_bias();
  }

  /// Takes the sums of dZ along rows of keys from the statistics: sum P (dP - Delta) = p Delta + dlse, p = exp(sink - lse).
  void take_row_sums(const AttentionOperands& x, const RowStatistics<T>& statistics, const AttentionResults& cotangent) {
    if (!by_row() || (problem_.bias_before_cap && problem_.soft_cap != 0)) return;
    row_sums_known_ = true;
    const T* const sinks = static_cast<const T*>(x.sinks);
    const T* const dlse = static_cast<const T*>(cotangent.lse);
    for_row_chunks([&](int64_t, int64_t row, int64_t chunk) {
      if (chunk != 0) return;
      for (int64_t h = 0; h < problem_.heads; ++h) {
        const int64_t at = row * problem_.heads + h;
        const T lse = statistics.lse(row, h), delta = statistics.delta(row, h);
        if (lse == std::numeric_limits<T>::infinity()) continue;  // saw nothing
        const T of_nothing = (lse - lse) + (delta - delta);       // NaN shows
        const T of_sink = sinks != nullptr ? std::exp(sinks[h] - lse) * delta : T(0);
        bias_rows_[at] = of_nothing + of_sink + (dlse != nullptr ? dlse[at] : T(0));
      }
    });
  }

  bool any() const { return gradient_.bias.data != nullptr || gradient_.slopes != nullptr || gradient_.table != nullptr; }

  /// Adds a tile of dZ [keys, stride] of query head `head` to the gradients of everything added after the cap.
  void add(const KeyTask& task, const Sequence& sequence, int64_t head, const TilePlace& at, const T* dz, int64_t stride,
           const FeatureScratch<T>& scratch, BiasStrip<T>* strip = nullptr) {
    if (gradient_.slopes != nullptr)
      add_rows<true>(dz, stride, at, sequence, slope_rows_.data() + row_index(task, sequence, head, at));
    if (gradient_.table != nullptr) {
      add_table(dz, stride, at, sequence, scratch,
                table_.data() + (task.index * problem_.group() + head % problem_.group()) * table_size_);
    }
    if (!problem_.bias_before_cap) add_bias(task, sequence, head, at, dz, stride, scratch, strip);
  }

  /// Adds a tile of dY to the gradients of what is added before the cap.
  void add_before_cap(const KeyTask& task, const Sequence& sequence, int64_t head, const TilePlace& at, const T* dy,
                      int64_t stride, const FeatureScratch<T>& scratch, BiasStrip<T>* strip = nullptr) {
    if (problem_.bias_before_cap) add_bias(task, sequence, head, at, dy, stride, scratch, strip);
  }

  /// Stores the gradient that the group of `task` accumulated in `strip` for a block of keys.
  void store_strip(const KeyTask& task, const BiasStrip<T>& strip) const {
    const Sequence sequence(problem_, task.sequence);
    const DType dtype = shadow_ ? dtype_of<T> : problem_.dtype;
    strip.for_gradient_rows([&](int64_t plane, const TilePlace& at, const T* rows, int64_t stride) {
      const PlaneView view(shadow_plane(task.copy), problem_.bias_offsets, sequence, task.kv_head * problem_.group() + plane,
                           dtype);
      for (int64_t r = 0; r < at.count; ++r) {
        char* to = view.data + ((at.row + r) * view.row_stride + at.key * view.column_stride) * view.item;
        if (view.column_stride == 1) {
          store_row(dtype, rows + r * stride, at.keys, to);
        } else {
          for (int64_t j = 0; j < at.keys; ++j)
            store_row(dtype, rows + r * stride + j, 1, to + j * view.column_stride * view.item);
        }
      }
    });
  }

  /// Reduces per-row and per-task sums and rounds to the outputs.
  void finish() {
    if (gradient_.slopes != nullptr) {
      parallel_for(problem_.heads, 1, [&](int64_t h, int64_t) {
        double total = 0;
        for_row_chunks(
            [&](int64_t, int64_t row, int64_t chunk) { total += slope_rows_[(chunk * rows_ + row) * problem_.heads + h]; });
        static_cast<T*>(gradient_.slopes)[h] = static_cast<T>(-total);
      });
    }
    if (gradient_.table != nullptr) {
      Scratch scratch;
      const auto size = static_cast<int64_t>(problem_.heads * table_size_);
      auto* const total = scratch.take<double>(size);
      std::fill_n(total, size, 0.0);
      for (const KeyTask& task : tasks_.tasks) {
        const T* part = table_.data() + task.index * problem_.group() * table_size_;
        for (int64_t i = 0; i < problem_.group() * table_size_; ++i)
          total[task.kv_head * problem_.group() * table_size_ + i] += part[i];
      }
      for (int64_t i = 0; i < size; ++i) static_cast<T*>(gradient_.table)[i] = static_cast<T>(total[i]);
    }
    if (by_row()) {
      for (int64_t h = 0; h < problem_.heads; ++h) {
        for_row_chunks([&](int64_t b, int64_t row, int64_t chunk) {
          const Sequence sequence(problem_, b);
          const PlaneView view(shadow_plane(0), problem_.bias_offsets, sequence, h, dtype_of<T>);
          reinterpret_cast<T*>(view.data)[(row - sequence.first_row) * view.row_stride] +=
              bias_rows_[(chunk * rows_ + row) * problem_.heads + h];
        });
      }
    }
    if (shadow_) {
      for_bias_rows([&](int64_t at, int64_t count, int64_t stride) {
        for (int64_t copy = 1; copy < tasks_.copies; ++copy) {
          T* HWY_RESTRICT sum = shadow_ + at;
          const T* HWY_RESTRICT part = shadow_ + copy * shadow_size_ + at;
          if (stride == 1) {
            for (int64_t j = 0; j < count; ++j) sum[j] += part[j];
          } else {
            for (int64_t j = 0; j < count; ++j) sum[j * stride] += part[j * stride];
          }
        }
        const int64_t item = item_size(problem_.dtype), run = stride == 1 ? count : 1;
        for (int64_t j = 0; j < count; j += run, at += stride) {
          store_row(problem_.dtype, shadow_ + at, run, static_cast<char*>(gradient_.bias.data) + at * item);
        }
      });
    }
  }

 private:
  bool by_row() const { return gradient_.bias.data != nullptr && gradient_.bias.column_stride == 0; }

  int64_t row_index(const KeyTask& task, const Sequence& sequence, int64_t head, const TilePlace& at) const {
    return (task.chunk * rows_ + sequence.first_row + at.row) * problem_.heads + head;
  }

  void add_bias(const KeyTask& task, const Sequence& sequence, int64_t head, const TilePlace& at, const T* values, int64_t stride,
                const FeatureScratch<T>& scratch, BiasStrip<T>* strip) {
    if (gradient_.bias.data == nullptr) return;
    if (in_strips_) {
      strip->add(head, at, values, stride);
    } else if (by_row()) {
      if (row_sums_known_) return;
      add_rows<false>(values, stride, at, sequence, bias_rows_.data() + row_index(task, sequence, head, at));
    } else {
      add_plane(values, stride, at, PlaneView(shadow_plane(task.copy), problem_.bias_offsets, sequence, head, dtype_of<T>),
                scratch);
    }
  }

  AttentionPlane shadow_plane(int64_t copy) const {
    AttentionPlane plane = gradient_.bias;
    if (shadow_) plane.data = shadow_ + copy * shadow_size_;
    return plane;
  }

  /// f(first element, count, stride) for every row of the bias gradient, each once, in parallel.
  template <typename F>
  void for_bias_rows(F f) const {
    const AttentionPlane& bias = gradient_.bias;
    int64_t most_rows = 0, most_keys = 0;  // a plane shared by the sequences is as large as the longest
    for (int64_t b = 0; b < problem_.sequences; ++b)
      most_rows = std::max(most_rows, problem_.rows(b)), most_keys = std::max(most_keys, problem_.keys(b));
    const bool per_sequence = problem_.bias_offsets != nullptr || bias.sequence_stride != 0;
    const int64_t heads = bias.head_stride != 0 ? problem_.heads : 1;
    for (int64_t b = 0; b < (per_sequence ? problem_.sequences : std::min<int64_t>(1, problem_.sequences)); ++b) {
      const Sequence sequence(problem_, b);
      const int64_t rows = per_sequence ? sequence.rows : most_rows, keys = per_sequence ? sequence.keys : most_keys;
      AttentionPlane origin = bias;
      origin.data = &origin;  // a dummy base address: only offsets from it are used
      const int64_t plane_rows = PlaneView(origin, problem_.bias_offsets, sequence, 0, DType::uint8).row_stride != 0 ? rows : 1;
      parallel_for(heads * plane_rows, kRowGrain, [&](int64_t begin, int64_t end) {
        for (int64_t n = begin; n < end; ++n) {
          const PlaneView view(origin, problem_.bias_offsets, sequence, n / plane_rows, DType::uint8);
          f(view.data - static_cast<char*>(origin.data) + n % plane_rows * view.row_stride, view.column_stride != 0 ? keys : 1,
            view.column_stride);
        }
      });
    }
  }

  void prepare_bias() {
    char* target = static_cast<char*>(gradient_.bias.data);
    int64_t item = item_size(problem_.dtype);
    if (tasks_.copies > 1 || (!in_strips_ && item != static_cast<int64_t>(sizeof(T)))) {
      std::atomic<int64_t> size{0};
      for_bias_rows([&](int64_t at, int64_t count, int64_t stride) {
        const int64_t end = at + (count - 1) * stride + 1;
        for (int64_t seen = size; seen < end && !size.compare_exchange_weak(seen, end);) {
        }
      });
      shadow_size_ = size;
      shadow_ = memory_.take<T>(tasks_.copies * shadow_size_);
      target = reinterpret_cast<char*>(shadow_);
      item = sizeof(T);
    }
    for_bias_rows([&](int64_t at, int64_t count, int64_t stride) {
      for (int64_t copy = 0; copy < tasks_.copies; ++copy) {
        char* row = target + (copy * shadow_size_ + at) * item;
        const int64_t run = stride == 1 ? count : 1;
        for (int64_t j = 0; j < count; j += run) std::memset(row + j * stride * item, 0, static_cast<size_t>(run * item));
      }
    });
  }

  template <typename F>
  void for_row_chunks(F f) const {
    for (int64_t b = 0; b < problem_.sequences; ++b) {
      const Sequence sequence(problem_, b);
      for (int64_t i = 0; i < sequence.rows; ++i) {
        for (int64_t chunk = 0; chunk < tasks_.chunks[b]; ++chunk) f(b, sequence.first_row + i, chunk);
      }
    }
  }

  /// sums[r * heads] += sum over the tile's keys of values (times the distance).
  template <bool kTimesDistance>
  void add_rows(const T* values, int64_t stride, const TilePlace& at, const Sequence& sequence, T* sums) const {
    const hn::ScalableTag<T> d;
    alignas(64) T lane_sums[kBlock<T>];
    for (int64_t lane = 0; lane < at.lanes; lane += kLanes<T>) {
      auto sum = hn::Zero(d);
      const auto position = hn::Iota(d, static_cast<T>(at.row + lane + sequence.diagonal));
      for (int64_t j = 0; j < at.keys; ++j) {
        const auto value = hn::LoadU(d, values + j * stride + lane);
        if constexpr (kTimesDistance) {
          sum = hn::MulAdd(value, hn::Abs(hn::Sub(position, hn::Set(d, static_cast<T>(at.key + j)))), sum);
        } else {
          sum = hn::Add(sum, value);
        }
      }
      hn::StoreU(sum, d, lane_sums + lane);
    }
    for (int64_t r = 0; r < at.count; ++r) sums[r * problem_.heads] += lane_sums[r];
  }

  void add_table(const T* values, int64_t stride, const TilePlace& at, const Sequence& sequence, const FeatureScratch<T>& scratch,
                 T* table) const {
    const hn::ScalableTag<T> d;
    std::fill_n(scratch.diagonal, at.keys + at.lanes, T(0));
    for (int64_t j = 0; j < at.keys; ++j) {
      T* to = scratch.diagonal + (at.keys - 1 - j);
      for (int64_t lane = 0; lane < at.lanes; lane += kLanes<T>) {
        hn::StoreU(hn::Add(hn::LoadU(d, to + lane), hn::LoadU(d, values + j * stride + lane)), d, to + lane);
      }
    }
    const int64_t farthest = at.key + at.keys - 1 - sequence.diagonal - at.row, reach = problem_.table_reach;
    for (int64_t m = 0; m < at.keys + at.lanes; ++m)
      table[std::clamp(farthest - m, -reach, reach) + reach] += scratch.diagonal[m];
  }

  void add_plane(const T* values, int64_t stride, const TilePlace& at, const PlaneView& view,
                 const FeatureScratch<T>& scratch) const {
    const hn::ScalableTag<T> d;
    T* plane = reinterpret_cast<T*>(view.data) + at.row * view.row_stride + at.key * view.column_stride;
    if (view.row_stride == 0) {
      for (int64_t j = 0; j < at.keys; ++j) {
        auto sum = hn::Zero(d);
        for (int64_t lane = 0; lane < at.lanes; lane += kLanes<T>) sum = hn::Add(sum, hn::LoadU(d, values + j * stride + lane));
        plane[j * view.column_stride] += hn::GetLane(hn::SumOfLanes(d, sum));
      }
      return;
    }
    transpose(values, stride, at.keys, at.lanes, scratch.rows, scratch.kRowStride);
    for (int64_t r = 0; r < at.count; ++r) {
      T* to = plane + r * view.row_stride;
      const T* from = scratch.rows + r * scratch.kRowStride;
      int64_t j = 0;
      if (view.column_stride == 1) {
        for (; j + kLanes<T> <= at.keys; j += kLanes<T>)
          hn::StoreU(hn::Add(hn::LoadU(d, to + j), hn::LoadU(d, from + j)), d, to + j);
      }
      for (; j < at.keys; ++j) to[j * view.column_stride] += from[j];
    }
  }

  const AttentionProblem& problem_;
  const AttentionOperands& gradient_;
  const KeyTasks& tasks_;
  bool in_strips_;
  bool row_sums_known_ = false;  // bias_rows_ are what take_row_sums() says
  int64_t rows_, table_size_;
  std::vector<T> slope_rows_, bias_rows_, table_;
  Scratch memory_;
  T* shadow_ = nullptr;  // [copies, shadow_size_]
  int64_t shadow_size_ = 0;
};

}  // namespace HWY_NAMESPACE
}  // namespace deckle::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
