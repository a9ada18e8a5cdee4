#include "deckle/nn/rotary.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <numeric>
#include <string>

#include "deckle/autograd/grad_mode.h"
#include "deckle/base/check.h"
#include "deckle/core/factory_device.h"
#include "deckle/core/kept.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/nested/capacity.h"
#include "deckle/ops/generated/position.h"
#include "deckle/ops/generated/shape.h"

namespace deckle::nn {

namespace {

constexpr int64_t kFirstPositions = 256;

/// [positions, D / 2].
struct Table {
  Tensor cosines;
  Tensor sines;
};

/// Computed in float64: in float32 an angle of 10^5 is off by up to 0.004.
Table make_table(int64_t positions, int64_t head_dim, double base, DType dtype, Device device) {
  const int64_t half = head_dim / 2;
  const Tensor cosines = empty({positions, half}, DType::float64);
  const Tensor sines = empty({positions, half}, DType::float64);
  for (int64_t i = 0; i < half; ++i) {
    const double speed = std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
    for (int64_t at = 0; at < positions; ++at) {
      const double angle = static_cast<double>(at) * speed;
      cosines.data<double>()[at * half + i] = std::cos(angle);
      sines.data<double>()[at * half + i] = std::sin(angle);
    }
  }
  return {to(cosines, dtype).to(device), to(sines, dtype).to(device)};
}

}  // namespace

struct Rotary::Tables {
  std::mutex mutex;
  std::map<std::pair<DType, std::string>, Table> of;  // by dtype and device
};

Rotary::Rotary(int64_t head_dim, double base) : head_dim_(head_dim), base_(base), tables_(std::make_shared<Tables>()) {
  check(head_dim >= 2 && head_dim % 2 == 0, "the head size is {} (expected an even one)", head_dim);
}

RotaryAngles Rotary::angles(const NestedTensor& batch, DType dtype, std::span<const int64_t> first) const {
  check(batch.ragged_dims() == 1, "{} ragged dims (expected one)", batch.ragged_dims());
  const RaggedShape& shape = *batch.ragged();
  if (nested::on_device_alone(batch.ragged())) {
    check(first.empty(), "{} first positions for a RaggedCapacity (expected none)", first.size());
    return with_table(row_places(batch.ragged()).position, longest(batch.ragged()), dtype, batch.values().device());
  }
  check(first.empty() || std::ssize(first) == shape.components(), "{} first positions for {} components (expected as many)",
        first.size(), shape.components());
  const Device device = batch.values().device();
  const auto positions = [&] {
    const OnDevice host{Device()};
    const Tensor all = empty({shape.rows()}, DType::int64);
    auto* position = all.data<int64_t>();
    for (int64_t b = 0; b < shape.components(); ++b) {
      std::iota(position, position + shape.size(b), first.empty() ? 0 : first[static_cast<size_t>(b)]);
      position += shape.size(b);
    }
    return all.to(device);
  };
  int64_t count = 0;
  for (int64_t b = 0; b < shape.components(); ++b)
    count = std::max(count, (first.empty() ? 0 : first[static_cast<size_t>(b)]) + shape.size(b));
  if (!first.empty()) return with_table(positions(), count, dtype, device);
  const OnDevice there(device);
  return with_table(kept_value(*batch.ragged(), "positions from 0", {}, positions), count, dtype, device);
}

RotaryAngles Rotary::angles(const Tensor& batch, DType dtype, int64_t first) const {
  check(batch.dim() >= 2, "shape {} (expected a batch [B, L, ...])", batch.sizes());
  const Tensor positions = empty({batch.size(0), batch.size(1)}, DType::int64);
  for (int64_t b = 0; b < batch.size(0); ++b) {
    auto* row = positions.data<int64_t>() + b * batch.size(1);
    std::iota(row, row + batch.size(1), first);
  }
  return with_table(positions, first + batch.size(1), dtype, batch.device());
}

RotaryAngles Rotary::with_table(const Tensor& positions, int64_t count, DType dtype, Device device) const {
  const NoGrad no_grad;
  const std::lock_guard lock(tables_->mutex);
  Table& table = tables_->of[{dtype, to_string(device)}];
  const int64_t known = table.cosines.defined() ? table.cosines.size(0) : 0;
  // Twice as long each time, so that a text that grows by one position a call costs O(1) of them per call.
  if (known < count) table = make_table(std::max({count, 2 * known, kFirstPositions}), head_dim_, base_, dtype, device);
  return {positions.to(device), slice(table.cosines, 0, 0, count), slice(table.sines, 0, 0, count)};
}

Tensor rotate(const Tensor& x, const RotaryAngles& angles) { return rotary(x, angles.positions, angles.cosines, angles.sines); }

NestedTensor rotate(const NestedTensor& x, const RotaryAngles& angles) {
  return NestedTensor::of_op(rotate(x.values(), angles), x.ragged());
}

}  // namespace deckle::nn
