// Ragged batches whose lengths lie on a device.

#include "deckle/nested/capacity.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "deckle/autograd/backward.h"
#include "deckle/autograd/forward_mode.h"
#include "deckle/autograd/grad_mode.h"
#include "deckle/autograd/support.h"
#include "deckle/base/check.h"
#include "deckle/core/factory_device.h"
#include "deckle/core/from_data.h"
#include "deckle/core/ragged_room.h"
#include "deckle/core/rethrow.h"
#include "deckle/core/shown.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/nested/support.h"
#include "deckle/ops/generated/bitwise.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/scan.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/ops/generated/sort.h"
#include "deckle/ops/spare_rows.h"

namespace deckle {

RaggedCapacity::RaggedCapacity(const Room& room, Device device) {
  call_as("RaggedCapacity", [&] {
    check(room.components >= 0 && room.rows >= 0 && room.longest >= 0, "{} components, {} rows, longest {} (expected 0 or more)",
          room.components, room.rows, room.longest);
    check(device.is_cuda(), "room on {} (expected a GPU: on a CPU the lengths of every batch are known)", device);
    const OnDevice there(device);
    room_ = std::make_shared<const RaggedRoom>(RaggedRoom{room.components, room.rows, room.longest > 0 ? room.longest : room.rows,
                                                          zeros({room.components + 1}, DType::int64)});
    ragged_ = Ragged(std::make_shared<const RaggedShape>(room_));
    overflow_ = zeros({1}, DType::bool_);
  });
}

void RaggedCapacity::set_lengths(std::span<const int64_t> lengths) {
  const OnDevice host{Device()};
  set_lengths(tensor(std::vector<int64_t>(lengths.begin(), lengths.end())));
}

void RaggedCapacity::set_lengths(const Tensor& lengths) {
  call_as("set_lengths", {{"lengths", lengths}}, [&] {
    check(lengths.dim() == 1 && lengths.size(0) <= room_->components &&
              (lengths.dtype() == DType::int64 || lengths.dtype() == DType::int32),
          "{} of shape {} (expected integers [B] for at most {} components)", name(lengths.dtype()), lengths.sizes(),
          room_->components);
    const NoGrad no_grad;
    const OnDevice there(room_->offsets.device());
    const Tensor none = zeros({1}, DType::int64), given = lengths.to(DType::int64).to(room_->offsets.device());
    const Tensor counts = cat(std::vector<Tensor>{given, zeros({room_->components - lengths.size(0)}, DType::int64)});
    const Tensor ends = cat(std::vector<Tensor>{none, cumsum(counts, 0)});
    const Tensor wrong = reshape(any(bitwise_or(lt(counts, 0), gt(counts, room_->longest))), {1});
    const Tensor total = slice(ends, 0, room_->components, room_->components + 1);
    overflow_.copy_(bitwise_or(wrong, gt(total, room_->rows)));
    room_->offsets.copy_(where(overflow_, none, ends));
  });
}

RowPlaces row_places(const Ragged& ragged) {
  check(nested::on_device_alone(ragged), Argument{"ragged"}, "is {} (expected that of a RaggedCapacity)", Shown{ragged});
  const RaggedRoom& room = *ragged->room();
  const NoGrad no_grad;
  const OnDevice there(room.offsets.device());
  const Tensor row = arange(0, room.rows, 1, DType::int64), ends = slice(room.offsets, 0, 1, room.components + 1);
  if (room.components == 0) return {zeros_like(row), full_like(row, -1)};
  // The component of a row: as many as end before it or there. Spare rows are behind the last one.
  const Tensor component = clamp_max(searchsorted(ends, row, {.right = true}), room.components - 1);
  const Tensor position = row - index_select(room.offsets, 0, component), next = row + 1;
  return {clamp_max(position, std::max<int64_t>(room.longest - 1, 0)), where(next < index_select(ends, 0, component), next, -1)};
}

int64_t longest(const Ragged& ragged) {
  check(ragged.defined(), Argument{"ragged"}, "is undefined (expected a ragged shape)");
  return nested::on_device_alone(ragged) ? ragged->room()->longest : ragged->max_size();
}

RowPlaces row_places(const RaggedCapacity& capacity) { return row_places(capacity.ragged()); }

namespace nested {
namespace {

/// Whether nobody sees this gradient's memory but the pass that brought it to a hook, which holds it once.
bool may_be_written(const Tensor& gradient) {
  const TensorImpl& impl = *gradient.impl();
  return gradient.shared_impl().use_count() == 1 && impl.storage.use_count() == 1 && impl.meta == nullptr &&
         impl.storage->bytes() == gradient.nbytes() && gradient.is_contiguous();
}

/// bool [rows, 1, ...]: which rows are no spare ones.
Tensor used_rows(const Tensor& values, const RaggedRoom& room) {
  const NoGrad no_grad;
  const OnDevice there(room.offsets.device());
  Dims sizes(static_cast<size_t>(values.dim()), 1);
  sizes[0] = room.rows;
  return reshape(lt(arange(0, room.rows, 1, DType::int64), slice(room.offsets, 0, room.components, room.components + 1)), sizes);
}

}  // namespace

Tensor zero_spare_rows(const Tensor& values, const Ragged& ragged) {
  const RaggedRoom& room = *ragged->room();
  if (!autograd::active(values)) {
    const Tensor own = values.is_contiguous() ? clone(values) : contiguous(values);
    native::clear_spare_rows(own, room);
    return own;
  }
  return where(used_rows(values, room), values, 0);
}

Tensor with_finite_rows(const NestedTensor& x, double eps) {
  const Tensor& values = x.values();
  // Statistics are float32. Those of float64 take a smaller eps, too: there it is done for nothing, to spare rows alone.
  if (!on_device_alone(x.ragged()) || !(eps < std::numeric_limits<float>::min())) return values;
  const RaggedRoom& room = *x.ragged()->room();
  const OnDevice there(room.offsets.device());
  const Tensor first = eq(arange(0, values.size(-1), 1, DType::int64), 0).to(values.dtype());
  return where(used_rows(values, room), values, first);
}

void keep_spare_rows_clear(const Tensor& values, const Ragged& ragged) {
  const RaggedRoom& room = *ragged->room();
  native::clear_spare_rows(values, room);
  for (const autograd::Level level : autograd::tangent_levels(values))
    autograd::update_tangent(values, level, zero_spare_rows(autograd::tangent(values, level), ragged));
  keep_spare_rows_of_gradient_clear(values, ragged);
}

void keep_spare_rows_of_gradient_clear(const Tensor& values, const Ragged& ragged) {
  // A leaf has its hook since requires_grad_: another at each call would stay for ever.
  if (values.requires_grad() && !values.is_leaf()) clear_spare_rows_of_gradient(values, ragged);
}

void clear_spare_rows_of_gradient(const Tensor& rows, const Ragged& ragged) {
  // A leaf meets batches of many lengths.
  const uint64_t now = ragged->room()->offsets.version();
  register_hook(rows, [ragged, now, leaf = rows.is_leaf()](const Tensor& gradient) {
    check(leaf || ragged->room()->offsets.version() == now,
          "the lengths of the room were set since the forward pass (expected backward before, or a room for each batch)");
    if (grad_enabled() || !autograd::tangent_levels(gradient).empty() || !may_be_written(gradient))
      return zero_spare_rows(gradient, ragged);
    native::clear_spare_rows(gradient, *ragged->room());
    return gradient;
  });
}

}  // namespace nested
}  // namespace deckle
