#include "deckle/nn/cache.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "deckle/autograd/grad_mode.h"
#include "deckle/base/check.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/ops/copy_lists.h"
#include "deckle/ops/generated/shape.h"

namespace deckle::nn {

namespace {

constexpr int64_t kLeastSpareRows = 32;
constexpr int64_t kMostPositions = int64_t{1} << 40;  // of one call: sums of some do not overflow

char* row_address(const Tensor& memory, int64_t row) {
  return static_cast<char*>(memory.raw_data()) + row * memory.stride(0) * item_size(memory.dtype());
}

/// Copies of runs of rows. On a GPU up to 48 of them are one launch: those of keys and values of 24 sequences.
class RowCopies {
 public:
  void add(const Tensor& from, int64_t from_row, const Tensor& to, int64_t to_row, int64_t count) {
    if (count == 0) return;
    if (to.device().is_cuda()) {
      from_.push_back(slice(from, 0, from_row, from_row + count));
      to_.push_back(slice(to, 0, to_row, to_row + count));
    } else {
      std::memcpy(row_address(to, to_row), row_address(from, from_row),
                  static_cast<size_t>(count * to.stride(0) * item_size(to.dtype())));
    }
  }
  void run() const {
    const NoGrad no_grad;
    if (!to_.empty()) native::copy_lists(to_, from_);
  }

 private:
  std::vector<Tensor> from_, to_;
};

Ragged room_of(const std::vector<int64_t>& starts) {
  std::vector<int64_t> rooms;
  for (size_t b = 0; b + 1 < starts.size(); ++b) rooms.push_back(starts[b + 1] - starts[b]);
  return Ragged::from_lengths(rooms);
}

}  // namespace

KeyValueCache::KeyValueCache(int64_t layers, int64_t kv_heads, int64_t head_dim, DType dtype, Device device)
    : kv_heads_(kv_heads), head_dim_(head_dim) {
  for (int64_t i = 0; i < layers; ++i)
    layers_.push_back({empty({0, kv_heads, head_dim}, dtype, device), empty({0, kv_heads, head_dim}, dtype, device)});
  note_room();
}

void KeyValueCache::add() {
  lengths_.push_back(0);
  starts_.push_back(starts_.back());
  note_room();
}

void KeyValueCache::clear(int64_t sequence) {
  check(sequence >= 0 && sequence < sequences(), "the cache has {} sequences, none numbered {} (expected one of them)",
        sequences(), sequence);
  lengths_[static_cast<size_t>(sequence)] = 0;
}

void KeyValueCache::remove(int64_t sequence) {
  clear(sequence);
  lengths_.erase(lengths_.begin() + sequence);
  starts_.erase(starts_.begin() + sequence);  // its rows are spare rows of the sequence before it
  note_room();
}

void KeyValueCache::extend(std::span<const int64_t> more) {
  check(std::ssize(more) == sequences(), "the cache has {} sequences, {} numbers of new positions are given (expected as many)",
        sequences(), more.size());
  std::vector<int64_t> lengths = lengths_;
  bool fits = true;
  for (size_t b = 0; b < more.size(); ++b) {
    check(more[b] >= 0 && more[b] <= kMostPositions, "{} new positions (expected 0..2^40)", more[b]);
    lengths[b] += more[b];
    fits = fits && lengths[b] <= room(b);
  }
  if (!fits) move(lengths);
  lengths_ = std::move(lengths);
}

void KeyValueCache::truncate(std::span<const int64_t> lengths) {
  check(std::ssize(lengths) == sequences(), "the cache has {} sequences, {} lengths are given (expected as many)", sequences(),
        lengths.size());
  for (size_t b = 0; b < lengths.size(); ++b)
    check(lengths[b] >= 0 && lengths[b] <= lengths_[b], "length {} of sequence {}, which has {} positions (expected no more)",
          lengths[b], b, lengths_[b]);
  lengths_.assign(lengths.begin(), lengths.end());
}

/// To new memory, with room for `lengths` and more; the rows of lengths_ positions are kept. All of it or nothing.
void KeyValueCache::move(const std::vector<int64_t>& lengths) {
  const int64_t spare = std::max(kLeastSpareRows, std::reduce(lengths.begin(), lengths.end()) / sequences());
  std::vector<int64_t> starts{0};
  for (const int64_t length : lengths) starts.push_back(starts.back() + length + spare);
  std::vector<Layer> moved = layers_;
  RowCopies copies;
  for (Layer& layer : moved) {
    for (Tensor* memory : {&layer.keys, &layer.values}) {
      const Tensor larger = empty({starts.back(), kv_heads_, head_dim_}, memory->dtype(), memory->device());
      for (size_t b = 0; b < lengths_.size(); ++b) copies.add(*memory, starts_[b], larger, starts[b], lengths_[b]);
      *memory = larger;
    }
  }
  copies.run();
  Ragged room = room_of(starts);
  layers_ = std::move(moved);
  starts_ = std::move(starts);
  room_ = std::move(room);
}

void KeyValueCache::write(int64_t layer, const NestedTensor& keys, const NestedTensor& values) {
  RowCopies copies;
  for (const auto& [from, memory] : {std::pair(&keys, &layers_[static_cast<size_t>(layer)].keys),
                                     std::pair(&values, &layers_[static_cast<size_t>(layer)].values)}) {
    const bool fit = from->ragged_dims() == 1 && from->components() == sequences() && from->dim() == 4 &&
                     from->size(2) == kv_heads_ && from->size(3) == head_dim_ && from->dtype() == memory->dtype();
    if (!fit)
      fail("rows of {} (expected {} [{}, ragged, {}, {}], as the cache has them)", to_string(*from), name(memory->dtype()),
           sequences(), kv_heads_, head_dim_);
    const Tensor rows = contiguous(from->values());
    for (int64_t b = 0; b < sequences(); ++b) {
      const auto at = static_cast<size_t>(b);
      const int64_t count = from->ragged()->size(b);
      check(count <= lengths_[at], "{} rows for sequence {}, which has {} positions (expected as many)", count, b, lengths_[at]);
      copies.add(rows, from->ragged()->offsets()[at], *memory, starts_[at] + lengths_[at] - count, count);
    }
  }
  copies.run();
}

NestedTensor KeyValueCache::rows_of(const Tensor& memory) const {
  return {slice(memory, 0, starts_.front(), starts_.back()), room_};
}

void KeyValueCache::note_room() { room_ = room_of(starts_); }

}  // namespace deckle::nn
