#pragma once

#include <memory>
#include <span>

#include "deckle/core/tensor.h"
#include "deckle/nested/nested_tensor.h"

namespace deckle::nn {

/// Which row of a batch stands where, and the angles of every position: made once per batch, on its device, used by all layers.
/// To read alone: the tensors may share memory with what Rotary and the batch's shape keep, and who writes into one turns every
/// later batch by it. `clone` gives one to write into.
struct RotaryAngles {
  Tensor positions;  // int64, one per row
  Tensor cosines;    // [positions, D / 2]
  Tensor sines;
};

/// Rotary positions of heads of size D: pair i turns by position / base^(2i / D). Su et al., 2021. The angles are computed once;
/// copies share them.
class Rotary {
 public:
  static constexpr bool has_parameters = false;

  explicit Rotary(int64_t head_dim, double base = 10'000);

  /// For a nested batch: component b starts at position first[b], or every one at 0.
  RotaryAngles angles(const NestedTensor& batch, DType dtype = DType::float32, std::span<const int64_t> first = {}) const;
  /// For a dense batch [B, L, ...]: every row of it starts at position `first`.
  RotaryAngles angles(const Tensor& batch, DType dtype = DType::float32, int64_t first = 0) const;

 private:
  struct Tables;
  RotaryAngles with_table(const Tensor& positions, int64_t count, DType dtype, Device device) const;

  int64_t head_dim_;
  double base_;
  std::shared_ptr<Tables> tables_;
};

/// x [rows..., H, D] turned to its positions.
Tensor rotate(const Tensor& x, const RotaryAngles& angles);
NestedTensor rotate(const NestedTensor& x, const RotaryAngles& angles);

}  // namespace deckle::nn
