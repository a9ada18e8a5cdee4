#include "deckle/nested/broadcast.h"

#include <algorithm>
#include <vector>

#include "deckle/autograd/forward_mode.h"
#include "deckle/autograd/grad_mode.h"
#include "deckle/base/check.h"
#include "deckle/core/factory_device.h"
#include "deckle/core/kept.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/nested/capacity.h"
#include "deckle/nested/rows.h"
#include "deckle/nested/support.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/ops/launch.h"

namespace deckle::nested {
namespace {

/// Whether `shape` has one position in `dim` of every component, or lacks the dim.
bool single(const Ragged& shape, int dim) {
  return !shape.defined() || dim >= shape->ragged_dims() || (shape->min_size(dim) == 1 && shape->max_size(dim) == 1);
}

/// Throws if both are rooms, but not the same.
void require_one_room(const Ragged& first, const Ragged& second) {
  if (on_device_alone(first) && on_device_alone(second)) require_same_ragged(first, second);
}

/// Throws unless `other` broadcasts to the rows of `lead`.
void require_fitting(const NestedTensor& other, const Lead& lead) {
  require_one_room(lead.ragged(), other.ragged());
  const bool same_components = lead.ragged().defined() && other.components() == lead.ragged()->components();
  if (!same_components && other.ragged_dims() < lead.ragged_dims()) {
    fail("{} components beside {} of shape {} (expected as many)", other.components(), lead.ragged()->components(), lead.shape());
  }
  if (!same_components || other.ragged_dims() > lead.ragged_dims()) {
    require_same_ragged(lead.ragged(), other.ragged());
  }
  for (int dim = 0; dim < other.ragged_dims(); ++dim) {
    if (single(other.ragged(), dim)) continue;
    for (int64_t b = 0; b < other.components(); ++b) {
      const int64_t size = other.ragged()->size(b, dim), expected = lead.ragged()->size(b, dim);
      if (size == expected) continue;
      if (other.ragged_dims() == lead.ragged_dims()) require_same_ragged(lead.ragged(), other.ragged());
      fail("component {} has size {} in dim {} beside {} in shape {} (expected the same, or 1)", b, size, dim + 1, expected,
           lead.shape());
    }
  }
}

/// The values without regular dims of size 1 that were kept in place of ragged dims of `lead`.
Tensor without_kept_dims(const NestedTensor& other, const Lead& lead) {
  Tensor values = other.values();
  const int64_t extra = values.dim() - lead.values_dims();
  if (extra <= 0) return values;
  bool fits = extra == lead.ragged_dims() - other.ragged_dims();
  for (int64_t dim = 1; fits && dim <= extra; ++dim) fits = values.size(dim) == 1;
  if (!fits)
    fail("shape {} does not broadcast with {} (expected size 1 in the ragged dims that it lacks)", ShapeOf{other}, lead.shape());
  for (int64_t dim = 0; dim < extra; ++dim) values = squeeze(values, 1);
  return values;
}

/// Where each row of `lead` finds its row of `other`, whose positions go along with those dims that move.
Tensor places_in(const NestedTensor& other, const RaggedShape& lead, const std::vector<bool>& moves) {
  const auto dims = static_cast<size_t>(lead.ragged_dims());
  std::vector<int64_t> first, strides(lead.sizes().size(), 0);
  for (int64_t b = 0; b < lead.components(); ++b) {
    int64_t stride = 1;
    for (size_t dim = dims; dim-- > 0;) {
      if (!moves[dim]) continue;
      strides[static_cast<size_t>(b) * dims + dim] = stride;
      stride *= lead.size(b, static_cast<int>(dim));
    }
    first.push_back(other.ragged().defined() ? other.ragged()->offset(b) : b);
  }
  return affine_index(lead, first, strides);
}

/// The rows of `values`, which are those of `other`, broadcast to the rows of `lead`: as they are where each is for a run of
/// rows, else written out.
RepeatedRows repeat_by(const Tensor& values, const NestedTensor& other, const Ragged& ragged) {
  const RaggedShape& lead = *ragged;
  const OnDevice there(values.device());
  std::vector<bool> moves;  // by ragged dim of lead: false where other is broadcast
  for (int dim = 0; dim < lead.ragged_dims(); ++dim) moves.push_back(!single(other.ragged(), dim));
  const auto first_repeated = std::find(moves.begin(), moves.end(), false);
  if (std::find(first_repeated, moves.end(), true) == moves.end()) {  // broadcast along inner dims alone: each row becomes a run
    const auto outer = static_cast<int>(first_repeated - moves.begin());
    return launch::repeat_by(values, kept_value(*ragged, "runs", {outer}, [&] {
                               std::vector<int64_t> runs;
                               for (int64_t b = 0; b < lead.components(); ++b) {
                                 int64_t rows = 1, run = 1;
                                 for (int dim = 0; dim < lead.ragged_dims(); ++dim)
                                   (dim < outer ? rows : run) *= lead.size(b, dim);
                                 runs.insert(runs.end(), static_cast<size_t>(rows), run);
                               }
                               return Ragged::from_lengths(runs);
                             }));
  }
  return index_select(values, 0,
                      kept_value(
                          *ragged, "beside", Dims(moves.begin(), moves.end()), [&] { return places_in(other, lead, moves); },
                          std::span(&other.ragged(), 1)));
}

/// `dense`, which has the same rows beside all of `lead`. In a room its gradient is a sum over spare rows too, which is not
/// finite where the derivative at their zeros is not, as of dense / nested: there the op has an operand of as many rows, whose
/// gradient has zeros in them.
Tensor beside_rows(const Tensor& dense, const Lead& lead) {
  if (!lead.ragged().defined() || !on_device_alone(lead.ragged()) || !grad_enabled()) return dense;
  const bool tangents = !autograd::tangent_levels(dense).empty();  // which may require grad
  if (!dense.requires_grad() && !tangents) return dense;
  Dims sizes(static_cast<size_t>(lead.values_dims()), 1);
  sizes[0] = lead.ragged()->rows();
  for (int64_t dim = lead.values_dims() - 1, of = dense.dim() - 1; dim > 0 && of >= 0; --dim, --of) sizes[dim] = dense.size(of);
  const Tensor rows = expand(dense, sizes);
  if (tangents) return zero_spare_rows(rows, lead.ragged());
  clear_spare_rows_of_gradient(rows, lead.ragged());
  return rows;
}

}  // namespace

Lead leading(std::initializer_list<const NestedTensor*> operands) {
  const NestedTensor* most = *operands.begin();
  for (const NestedTensor* operand : operands) {
    const bool more_ragged = operand->ragged_dims() > most->ragged_dims();
    if (more_ragged || (operand->ragged_dims() == most->ragged_dims() && operand->dim() > most->dim())) most = operand;
  }
  const bool alike = std::all_of(operands.begin(), operands.end(), [&](const NestedTensor* operand) {
    return operand->values().dim() == 0 || operand->ragged() == most->ragged() || operand->components() != most->components();
  });
  if (alike) return *most;  // or refused by broadcast_to()
  for (const NestedTensor* operand : operands) require_one_room(most->ragged(), operand->ragged());
  std::vector<Ragged> from;  // by ragged dim: the first operand that has more than one position in it
  for (int dim = 0; dim < most->ragged_dims(); ++dim) {
    const auto many = std::find_if(operands.begin(), operands.end(), [&](const NestedTensor* operand) {
      return !single(operand->ragged(), dim) && operand->components() == most->components();
    });
    from.push_back(many == operands.end() ? most->ragged() : (*many)->ragged());
  }
  const OnDevice there(most->values().device());
  const Ragged together = kept_shape(
      *most->ragged(), "together", {},
      [&] {
        std::vector<int64_t> sizes;
        for (int64_t b = 0; b < most->components(); ++b) {
          for (size_t dim = 0; dim < from.size(); ++dim) sizes.push_back(from[dim]->size(b, static_cast<int>(dim)));
        }
        return Ragged(std::make_shared<const RaggedShape>(std::move(sizes), most->ragged_dims()));
      },
      from);
  return {*most, together == most->ragged() ? most->ragged() : together};
}

RepeatedRows broadcast_to(const NestedTensor& other, const Lead& lead) {
  RepeatedRows rows = other.values();
  if (rows.values.dim() == 0) return beside_rows(rows.values, lead);  // one number
  if (!(other.ragged() == lead.ragged())) {
    require_fitting(other, lead);
    rows = repeat_by(without_kept_dims(other, lead), other, lead.ragged());
  }
  for (int64_t missing = lead.values_dims() - rows.values.dim(); missing > 0; --missing) rows.values = unsqueeze(rows.values, 1);
  return rows;
}

RepeatedRows broadcast_to(const Tensor& other, const Lead& lead) {
  if (!lead.ragged().defined()) return other;
  if (other.dim() < lead.dim()) {
    if (other.dim() < lead.values_dims()) return beside_rows(other, lead);
    fail(
        "a dense operand of shape {} does not broadcast with {} (expected its regular dims, or {} dims with size 1 where it is "
        "ragged)",
        to_string(other.sizes()), lead.shape(), lead.dim());
  }
  const int64_t components = lead.ragged()->components();
  bool fits = other.dim() == lead.dim() && (other.size(0) == 1 || other.size(0) == components);
  for (int dim = 1; dim <= lead.ragged_dims() && fits; ++dim) fits = other.size(dim) == 1;
  if (!fits) {
    fail("a dense operand of shape {} does not broadcast with {} (expected {} or 1 in dim 0 and 1 in the ragged dims)",
         to_string(other.sizes()), lead.shape(), components);
  }
  Tensor rows = other;
  for (int dim = 0; dim < lead.ragged_dims(); ++dim) rows = squeeze(rows, 1);
  if (rows.size(0) == 1 && (components != 1 || on_device_alone(lead.ragged()))) return beside_rows(rows, lead);
  return launch::repeat_by(rows, lead.ragged());
}

}  // namespace deckle::nested
