#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "deckle/base/device.h"

namespace deckle {

class RaggedShape;

/// Where the packed rows of a RaggedShape belong, and where they lie in other layouts. Each shape has one, shared by all tensors
/// of that shape: components are made once, when first asked for, groups are kept (core/kept.h), affine indices are made in every
/// call. Thread-safe. Host memory; copies for a device belong here too.
class RowMap {
 public:
  explicit RowMap(const RaggedShape& shape) : shape_(shape) {}
  ~RowMap();
  RowMap(const RowMap&) = delete;
  RowMap& operator=(const RowMap&) = delete;

  /// Kernels on `device` may ask for copies of the shape's arrays: they are made once (deckle/core/cuda/mirror.h). Those of a
  /// fake one, the CPU's, ask for none: there the copies are made here, so that a recording refuses the first ones as a GPU's
  /// does.
  void keep_mirrors(Device device) const;

  /// The component of each row of the values, [rows].
  std::span<const int64_t> components() const;

  /// The position of a row along one ragged dim of its component. Not for shapes with an order.
  int64_t position(int64_t row, int ragged_dim) const;

  /// An affine index of all rows: out[row] = first[b] + sum over ragged dims d of position(row, d) * strides[b * ragged_dims +
  /// d].
  void affine(std::span<const int64_t> first, std::span<const int64_t> strides, int64_t* out) const;
  std::vector<int64_t> affine(std::span<const int64_t> first, std::span<const int64_t> strides) const;

  /// The rows grouped for an op over `dims` (bit 0: the batch, bit d + 1: ragged dim d): rows that differ in those dims alone are
  /// one group. Groups are numbered row-major by what stays; where the batch is reduced, by the largest size of each dim.
  std::shared_ptr<const RaggedShape> groups(uint64_t dims) const;

 private:
  std::shared_ptr<const RaggedShape> make_groups(uint64_t dims) const;

  const RaggedShape& shape_;
  mutable std::once_flag components_made_;
  mutable std::vector<int64_t> components_;
};

}  // namespace deckle
