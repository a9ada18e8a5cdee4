#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "deckle/nested/nested_tensor.h"

namespace deckle {

/// Room on a device for batches of at most so many components and rows, whose lengths change while all shapes and all memory
/// stay: what a cuda::Graph of a step over ragged batches needs.
///
///     RaggedCapacity room({.components = 64, .rows = 8192, .longest = 1024}, gpu);
///     Tensor tokens = zeros({8192}, DType::int64, gpu);
///     room.set_lengths(lengths);                                    // of this batch; the host does not wait
///     slice(tokens, 0, 0, packed.size(0)).copy_(packed);            // its rows come first, the others are spare
///     Tensor loss = model.loss(NestedTensor(tokens, room.ragged()));  // a copy, so once for each batch
///
/// Nested tensors of this shape have zeros in their spare rows, as the lengths are when they are made, and so have their
/// gradients. Ops that keep the rows serve them, and attention; what must know the lengths on the host, and what mixes rows
/// otherwise, throws.
class RaggedCapacity {
 public:
  struct Room {
    int64_t components = 0, rows = 0;
    int64_t longest = 0;  // 0: as many as there are rows
  };
  RaggedCapacity(const Room& room, Device device);

  /// Of tensors in this room, whatever lengths it has.
  const Ragged& ragged() const { return ragged_; }

  /// Lengths of the next batch, of no more components than there is room for: the others are empty. A batch that does not fit is
  /// one without rows, and sets the flag.
  void set_lengths(std::span<const int64_t> lengths);
  /// The same of an int64 or int32 tensor, which may be on the device.
  void set_lengths(const Tensor& lengths);

  /// bool [1], on the device: the batch did not fit.
  const Tensor& overflow() const { return overflow_; }
  /// The same on the host, which waits.
  bool overflowed() const { return overflow_.item<bool>(); }

 private:
  std::shared_ptr<const RaggedRoom> room_;
  Ragged ragged_;
  Tensor overflow_;
};

/// Where the rows of packed values lie, int64 [rows], made where they are; of spare rows anything in range.
struct RowPlaces {
  Tensor position;  // in the component
  Tensor next;      // the row behind it in the component; -1: it is the last, or spare
};
RowPlaces row_places(const RaggedCapacity& capacity);
RowPlaces row_places(const Ragged& ragged);

/// How many rows a component may have.
int64_t longest(const Ragged& ragged);

namespace nested {

/// Whether the lengths are known on the device alone.
inline bool on_device_alone(const Ragged& ragged) { return ragged.defined() && ragged->room() != nullptr; }

/// A copy of values with zeros in the spare rows of a room, by an op that has derivatives.
Tensor zero_spare_rows(const Tensor& values, const Ragged& ragged);

/// Writes zeros to the spare rows of what an op made: below autograd, for rows that have no meaning are no change of a saved
/// tensor. Those of its gradient and of its tangents are zero from here on, too.
void keep_spare_rows_clear(const Tensor& values, const Ragged& ragged);

/// What that does to the gradient of what an op made.
void keep_spare_rows_of_gradient_clear(const Tensor& values, const Ragged& ragged);

/// Gradients that reach `rows`, which lie beside those of a room, are zero in spare rows from here on.
void clear_spare_rows_of_gradient(const Tensor& rows, const Ragged& ragged);

}  // namespace nested
}  // namespace deckle
