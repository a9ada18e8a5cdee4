#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "deckle/core/tensor.h"
#include "deckle/nested/nested_tensor.h"

namespace deckle::nn {

/// Keys and values of the positions that a decoder has seen of several sequences, so that a further position costs one row.
/// Ragged: each sequence has as many rows as it is long, and spare capacity behind them. When that is exhausted, all sequences
/// are reallocated with the mean length as spare capacity for each: it grows geometrically, so appending a row is amortised
/// O(1). Without gradients.
class KeyValueCache {
 public:
  /// For `layers` layers of keys and values [rows, kv_heads, head_dim].
  KeyValueCache(int64_t layers, int64_t kv_heads, int64_t head_dim, DType dtype, Device device = {});

  int64_t sequences() const { return static_cast<int64_t>(lengths_.size()); }
  /// Positions by sequence.
  const std::vector<int64_t>& lengths() const { return lengths_; }

  /// A sequence without positions, behind the others.
  void add();
  /// The sequence has no positions any more; its rows become spare.
  void clear(int64_t sequence);
  /// The sequence goes; those behind it move up by one, and no rows are copied.
  void remove(int64_t sequence);

  /// Sequence b gets more[b] further positions, whose rows `write` then fills, layer by layer. An error leaves the cache as it
  /// is.
  void extend(std::span<const int64_t> more);
  /// Sequence b keeps its first lengths[b] positions; the rows of the others become spare.
  void truncate(std::span<const int64_t> lengths);
  /// Keys and values [sequences, more[b], kv_heads, head_dim] of the positions that `extend` added last.
  void write(int64_t layer, const NestedTensor& keys, const NestedTensor& values);

  /// All rows of a layer, spare ones (of any content) included: what attention takes, with lengths() as its key_lengths.
  NestedTensor keys(int64_t layer) const { return rows_of(layers_[static_cast<size_t>(layer)].keys); }
  NestedTensor values(int64_t layer) const { return rows_of(layers_[static_cast<size_t>(layer)].values); }

 private:
  struct Layer {
    Tensor keys, values;  // [rows, kv_heads, head_dim]
  };
  int64_t room(size_t sequence) const { return starts_[sequence + 1] - starts_[sequence]; }
  NestedTensor rows_of(const Tensor& memory) const;
  void move(const std::vector<int64_t>& lengths);
  void note_room();

  int64_t kv_heads_, head_dim_;
  std::vector<Layer> layers_;
  std::vector<int64_t> lengths_;
  std::vector<int64_t> starts_{0};  // first row of each sequence, then the number of rows
  Ragged room_;                     // of all sequences, spare rows included
};

}  // namespace deckle::nn
