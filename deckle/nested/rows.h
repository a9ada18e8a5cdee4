#pragma once

#include <functional>
#include <span>
#include <vector>

#include "deckle/nested/nested_tensor.h"

/// Rows of packed values by position in their component: what the structural ops of nested tensors are made of. The index is
/// computed on the host; index_select and its kin then make the op differentiable in every mode.
namespace deckle::nested {

/// The packed row at `position`, one index per ragged dim, of component b; not checked.
int64_t row_at(const RaggedShape& shape, int64_t b, std::span<const int64_t> position);

/// Rows of packed values (-1: padding) and their ragged shape.
struct Rows {
  Tensor index;  // int64
  Ragged shape;
};

/// Appends the wanted positions of component b along one ragged dim; -1 for padding.
using Positions = std::function<void(int64_t b, std::vector<int64_t>& positions)>;

/// All rows at the wanted positions along `ragged_dim` (0 is the first), every position of the other ragged dims.
Rows rows_at(const Ragged& ragged, int ragged_dim, const Positions& positions);

/// The same positions of every component; throws for those that a component does not have.
Rows rows_at_all(const Ragged& ragged, int ragged_dim, std::span<const int64_t> positions);

/// The rows of whole components, in this order.
Rows rows_of_components(const Ragged& ragged, std::span<const int64_t> components);

/// x with those rows.
NestedTensor take(const NestedTensor& x, const Rows& rows);

/// The ragged shape without one of its dims, whose size is 1 everywhere; undefined if it was the only one.
Ragged without_ragged_dim(const Ragged& ragged, int ragged_dim);

/// The ragged shape with one more dim of size 1 before `ragged_dim`.
Ragged with_ragged_dim(const Ragged& ragged, int ragged_dim);

/// An int64 or int32 vector of indices on the host; throws naming `what`.
std::vector<int64_t> to_indices(const Tensor& index, const char* what);

/// Where factories make their tensors (deckle/core/factory_device.h), as all indices of rows.
Tensor index_tensor(std::span<const int64_t> values, DType dtype = DType::int64);

/// RowMap::affine as an index.
Tensor affine_index(const RaggedShape& shape, std::span<const int64_t> first, std::span<const int64_t> strides);

}  // namespace deckle::nested
