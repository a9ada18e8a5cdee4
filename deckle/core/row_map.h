#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

namespace deckle {

class RaggedShape;

/// Where the packed rows of a RaggedShape belong, and where they lie in other layouts. Each shape has one, shared by all tensors
/// of that shape: components, groups and derived shapes are made once, when first asked for, affine indices in every call.
/// Thread-safe. Host memory; copies for a device belong here too.
class RowMap {
 public:
  explicit RowMap(const RaggedShape& shape) : shape_(shape) {}
  ~RowMap();
  RowMap(const RowMap&) = delete;
  RowMap& operator=(const RowMap&) = delete;

  /// Kernels of a GPU may ask for copies of the shape's arrays: they are made once (deckle/core/cuda/mirror.h).
  void keep_mirrors() const;

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

  /// What a shape made out of this one is, and the numbers that it depends on.
  struct Derivation {
    std::string_view what;  // outlives the map
    std::array<int64_t, 4> numbers{};
    friend bool operator==(const Derivation&, const Derivation&) = default;
  };

  /// The shape that `make` gives when it is first asked for: one for each derivation. `make` asks for no other of this map.
  std::shared_ptr<const RaggedShape> derived(const Derivation& derivation,
                                             const std::function<std::shared_ptr<const RaggedShape>()>& make) const;

 private:
  struct Derived {
    Derivation derivation;
    std::shared_ptr<const RaggedShape> shape;
  };

  std::shared_ptr<const RaggedShape> make_groups(uint64_t dims) const;

  const RaggedShape& shape_;
  mutable std::once_flag components_made_;
  mutable std::vector<int64_t> components_;
  mutable std::mutex derived_mutex_;
  mutable std::vector<Derived> derived_;
};

}  // namespace deckle
