// cat of nested tensors along any dim, stack along new ones.

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "deckle/base/check.h"
#include "deckle/nested/generated/index.h"
#include "deckle/nested/kept_rows.h"
#include "deckle/nested/rows.h"
#include "deckle/nested/support.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/ops/promotion.h"

namespace deckle::nested {
namespace {

std::vector<Tensor> all_values(const std::vector<NestedTensor>& tensors) {
  std::vector<Tensor> result;
  for (const NestedTensor& tensor : tensors) result.push_back(tensor.values());
  return result;
}

Dims row_counts(const std::vector<Tensor>& values) {
  Dims result;
  for (const Tensor& one : values) result.push_back(one.size(0));
  return result;
}

const NestedTensor& first_of(const std::vector<NestedTensor>& tensors) {
  check(!tensors.empty(), "the list is empty (expected at least one tensor)");
  return tensors[0];
}

/// Throws unless all have the same dims, and regular ones of equal sizes but for `joined`.
void require_same_dims(const std::vector<NestedTensor>& tensors, int64_t joined) {
  const NestedTensor& like = tensors[0];
  for (size_t i = 1; i < tensors.size(); ++i) {
    bool fits = tensors[i].ragged_dims() == like.ragged_dims() && tensors[i].dim() == like.dim();
    for (int64_t dim = like.ragged_dims() + 1; fits && dim < like.dim(); ++dim)
      fits = dim == joined || tensors[i].size(dim) == like.size(dim);
    check(fits, "tensor {} has shape {}, tensor 0 has {} (expected the same dims, and equal regular sizes{})", i,
          nested::ShapeOf{tensors[i]}, nested::ShapeOf{like},
          joined > like.ragged_dims() ? fmt::format(" but for dim {}", joined) : "");
  }
}

void require_same_ragged(const std::vector<NestedTensor>& tensors) {
  for (size_t i = 1; i < tensors.size(); ++i)
    nested::require_same_ragged(tensors[0], tensors[i], "tensor 0", fmt::format("tensor {}", i));
}

/// The shapes behind the first, on which what is kept of that depends.
std::vector<Ragged> others_of(const std::vector<NestedTensor>& tensors) {
  std::vector<Ragged> others;
  for (size_t i = 1; i < tensors.size(); ++i) others.push_back(tensors[i].ragged());
  return others;
}

NestedTensor cat_components(const std::vector<NestedTensor>& tensors) {
  const Tensor values = cat(all_values(tensors), 0);
  if (!tensors[0].ragged().defined()) return {values, Ragged()};
  const OnDeviceOf there(tensors);
  const Ragged together = kept_shape(
      *tensors[0].ragged(), "batches", {},
      [&] {
        std::vector<int64_t> sizes;
        for (const NestedTensor& tensor : tensors)
          sizes.insert(sizes.end(), tensor.ragged()->sizes().begin(), tensor.ragged()->sizes().end());
        return Ragged(std::make_shared<const RaggedShape>(std::move(sizes), tensors[0].ragged_dims()));
      },
      others_of(tensors));
  return {values, together};
}

/// The rows of all tensors, one after the other, that make the components b of all joined along one ragged dim.
Rows joined_rows(const std::vector<NestedTensor>& tensors, int ragged_dim) {
  const RaggedShape& like = *tensors[0].ragged();
  std::vector<int64_t> sizes(like.sizes().begin(), like.sizes().end());
  for (size_t i = 1; i < tensors.size(); ++i) {
    const RaggedShape& shape = *tensors[i].ragged();
    check(shape.components() == like.components(), "tensor {} has {} components, tensor 0 has {} (expected as many)", i,
          shape.components(), like.components());
    for (int64_t b = 0; b < like.components(); ++b) {
      for (int dim = 0; dim < like.ragged_dims(); ++dim) {
        check(dim == ragged_dim || shape.size(b, dim) == like.size(b, dim),
              "component {} of tensor {} has size {} in dim {}, that of tensor 0 has {} (expected the same)", b, i,
              shape.size(b, dim), dim + 1, like.size(b, dim));
      }
      sizes[static_cast<size_t>(b * like.ragged_dims() + ragged_dim)] += shape.size(b, ragged_dim);
    }
  }
  const Ragged joined(std::make_shared<const RaggedShape>(std::move(sizes), like.ragged_dims()));

  // Each tensor's rows in the result: row-major as there, from where the tensors before it end.
  std::vector<int64_t> first(static_cast<size_t>(like.components())), strides(like.sizes().size());
  for (int64_t b = 0; b < like.components(); ++b) {
    first[static_cast<size_t>(b)] = joined->offset(b);
    int64_t stride = 1;
    for (int dim = like.ragged_dims() - 1; dim >= 0; --dim) {
      strides[static_cast<size_t>(b * like.ragged_dims() + dim)] = stride;
      stride *= joined->size(b, dim);
    }
  }
  std::vector<int64_t> rows(static_cast<size_t>(joined->rows()));
  int64_t source = 0;
  for (const NestedTensor& tensor : tensors) {
    for (const int64_t row : tensor.ragged()->row_map().affine(first, strides)) rows[static_cast<size_t>(row)] = source++;
    for (int64_t b = 0; b < like.components(); ++b) {
      first[static_cast<size_t>(b)] +=
          tensor.ragged()->size(b, ragged_dim) * strides[static_cast<size_t>(b * like.ragged_dims() + ragged_dim)];
    }
  }
  return {nested::index_tensor(rows), joined};
}

/// Component b of the result is the components b of all tensors, joined along one ragged dim.
NestedTensor cat_positions(const std::vector<NestedTensor>& tensors, int ragged_dim) {
  std::vector<Tensor> values = all_values(tensors);
  const DType dtype = result_type(values);
  for (Tensor& one : values) one = to(one, dtype);
  const OnDeviceOf there(tensors);
  const Rows rows = kept_rows(
      *tensors[0].ragged(), "joined", {ragged_dim}, [&] { return joined_rows(tensors, ragged_dim); }, others_of(tensors));
  return {concatenate_rows(values, rows.index, row_counts(values)), rows.shape};
}

}  // namespace

NestedTensor cat(const std::vector<NestedTensor>& tensors, int64_t dim) {
  dim = nested::wrap_dim(dim, first_of(tensors));
  require_same_dims(tensors, dim);
  if (dim == 0) return cat_components(tensors);
  if (tensors[0].is_ragged(dim)) return cat_positions(tensors, static_cast<int>(dim) - 1);
  require_same_ragged(tensors);
  return NestedTensor::of_op(cat(all_values(tensors), nested::values_dim(dim, tensors[0])), tensors[0]);
}

NestedTensor stack(const std::vector<NestedTensor>& tensors, int64_t dim) {
  dim = nested::wrap_new_dim(dim, first_of(tensors));
  require_same_dims(tensors, 0);
  require_same_ragged(tensors);
  const int64_t ragged_dims = tensors[0].ragged_dims();
  if (dim > ragged_dims) return NestedTensor::of_op(stack(all_values(tensors), dim - ragged_dims), tensors[0].ragged());
  std::vector<NestedTensor> rows;
  const Ragged ragged = nested::with_ragged_dim(tensors[0].ragged(), static_cast<int>(dim) - 1);
  for (const NestedTensor& tensor : tensors) rows.emplace_back(tensor.values(), ragged);
  return cat_positions(rows, static_cast<int>(dim) - 1);
}

}  // namespace deckle::nested
