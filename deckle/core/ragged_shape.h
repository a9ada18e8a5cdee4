#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "deckle/core/row_map.h"

namespace deckle {

struct RaggedRoom;

/// The sizes of the components of a batch along its ragged dims, which come right after the batch dim, and the offsets of
/// their rows in the packed values. Immutable; shared by every tensor of the same shape.
class RaggedShape {
 public:
  /// `sizes` is [components, ragged_dims], row-major, all >= 0. `order`: where the rows of the components lie, if not one after
  /// another: row i, counted through the components, is row order[i] of the values. Segment ops take such shapes, whose groups of
  /// rows are not contiguous; NestedTensor never sets an order.
  RaggedShape(std::vector<int64_t> sizes, int ragged_dims = 1, std::vector<int64_t> order = {});

  /// Batches of one ragged dim whose lengths lie on a device and change (core/ragged_room.h): only how many components and rows
  /// there is room for is known here; what asks for a size, an offset or an order throws.
  explicit RaggedShape(std::shared_ptr<const RaggedRoom> room);

  int64_t components() const { return components_; }
  int ragged_dims() const { return ragged_dims_; }
  /// Null where the host knows the sizes.
  const RaggedRoom* room() const { return room_.get(); }
  int64_t size(int64_t component, int ragged_dim = 0) const {
    require_known();
    return sizes_[static_cast<size_t>(component * ragged_dims_ + ragged_dim)];
  }
  std::span<const int64_t> sizes() const {
    require_known();
    return sizes_;
  }
  std::span<const int64_t> offsets() const {  // [components + 1]
    require_known();
    return offsets_;
  }
  std::span<const int64_t> order() const { return order_; }  // [rows] or empty
  int64_t offset(int64_t component) const {
    require_known();
    return offsets_[static_cast<size_t>(component)];
  }
  int64_t rows() const { return offsets_.back(); }
  const RowMap& row_map() const { return row_map_; }
  int64_t max_size(int ragged_dim = 0) const;
  int64_t min_size(int ragged_dim = 0) const;

  friend bool operator==(const RaggedShape& a, const RaggedShape& b) {
    return a.ragged_dims_ == b.ragged_dims_ && a.sizes_ == b.sizes_ && a.order_ == b.order_ && a.room_ == b.room_;
  }

 private:
  void require_known() const {
    if (room_ != nullptr) [[unlikely]]
      refuse();
  }
  [[noreturn]] void refuse() const;

  int64_t components_;
  int ragged_dims_;
  std::vector<int64_t> sizes_;
  std::vector<int64_t> offsets_;  // of a room the number of its rows alone
  std::vector<int64_t> order_;
  std::shared_ptr<const RaggedRoom> room_;
  RowMap row_map_{*this};
};

/// An opaque, immutable, cheaply copied RaggedShape: the argument type of segment ops.
class Ragged {
 public:
  Ragged() = default;
  Ragged(std::shared_ptr<const RaggedShape> shape) : shape_(std::move(shape)) {}

  /// From the lengths of one ragged dim.
  static Ragged from_lengths(std::span<const int64_t> lengths);
  /// From offsets [components + 1] that start at 0 and never fall.
  static Ragged from_offsets(std::span<const int64_t> offsets);

  bool defined() const { return shape_ != nullptr; }
  const std::shared_ptr<const RaggedShape>& shared() const { return shape_; }
  const RaggedShape* operator->() const { return shape_.get(); }
  const RaggedShape& operator*() const { return *shape_; }

  /// By content; the pointer is compared first.
  friend bool operator==(const Ragged& a, const Ragged& b) {
    return a.shape_ == b.shape_ || (a.defined() && b.defined() && *a.shape_ == *b.shape_);
  }

 private:
  std::shared_ptr<const RaggedShape> shape_;
};

/// "3 components of lengths [5, 2, 9]"; long lists are cut.
std::string to_string(const Ragged& ragged);

}  // namespace deckle
