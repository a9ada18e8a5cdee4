#include "deckle/nested/rows.h"
#include "deckle/core/kept.h"

#include <algorithm>

#include "deckle/base/check.h"
#include "deckle/base/range.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/ops/copy.h"
#include "deckle/ops/generated/index.h"

namespace deckle::nested {

int64_t row_at(const RaggedShape& shape, int64_t b, std::span<const int64_t> position) {
  int64_t row = 0;
  for (int dim = 0; dim < shape.ragged_dims(); ++dim) row = row * shape.size(b, dim) + position[static_cast<size_t>(dim)];
  return shape.offsets()[static_cast<size_t>(b)] + row;
}

Rows rows_at(const Ragged& ragged, int ragged_dim, const Positions& positions) {
  const RaggedShape& shape = *ragged;
  std::vector<int64_t> rows, sizes(shape.sizes().begin(), shape.sizes().end()), wanted;
  for (int64_t b = 0; b < shape.components(); ++b) {
    wanted.clear();
    positions(b, wanted);
    int64_t outer = 1, inner = 1;
    for (int dim = 0; dim < ragged_dim; ++dim) outer *= shape.size(b, dim);
    for (int dim = ragged_dim + 1; dim < shape.ragged_dims(); ++dim) inner *= shape.size(b, dim);
    const int64_t length = shape.size(b, ragged_dim), offset = shape.offsets()[static_cast<size_t>(b)];
    for (int64_t o = 0; o < outer; ++o) {
      for (const int64_t at : wanted) {
        for (int64_t i = 0; i < inner; ++i) rows.push_back(at < 0 ? -1 : offset + (o * length + at) * inner + i);
      }
    }
    sizes[static_cast<size_t>(b * shape.ragged_dims() + ragged_dim)] = static_cast<int64_t>(wanted.size());
  }
  return {index_tensor(rows), Ragged(std::make_shared<const RaggedShape>(std::move(sizes), shape.ragged_dims()))};
}

Rows rows_at_all(const Ragged& ragged, int ragged_dim, std::span<const int64_t> positions) {
  return rows_at(ragged, ragged_dim, [&](int64_t b, std::vector<int64_t>& wanted) {
    const int64_t length = ragged->size(b, ragged_dim);
    for (const int64_t at : positions) {
      check(at >= 0 && at < length, "index {} is out of range for dim {} of component {}, of length {} (expected {})", at,
            ragged_dim + 1, b, length, Range{0, length - 1});
      wanted.push_back(at);
    }
  });
}

Rows rows_of_components(const Ragged& ragged, std::span<const int64_t> components) {
  const RaggedShape& shape = *ragged;
  std::vector<int64_t> rows, sizes;
  for (const int64_t b : components) {
    check(b >= 0 && b < shape.components(), "component {} is out of range (expected {})", b, Range{0, shape.components() - 1});
    for (int dim = 0; dim < shape.ragged_dims(); ++dim) sizes.push_back(shape.size(b, dim));
    for (int64_t row = shape.offsets()[static_cast<size_t>(b)]; row < shape.offsets()[static_cast<size_t>(b) + 1]; ++row)
      rows.push_back(row);
  }
  return {index_tensor(rows), Ragged(std::make_shared<const RaggedShape>(std::move(sizes), shape.ragged_dims()))};
}

NestedTensor take(const NestedTensor& x, const Rows& rows) { return {index_select_or(x.values(), rows.index), rows.shape}; }

Ragged without_ragged_dim(const Ragged& ragged, int ragged_dim) {
  const RaggedShape& shape = *ragged;
  if (shape.ragged_dims() == 1) return {};
  return kept_shape(*ragged, "without a dim", {ragged_dim}, [&] {
    std::vector<int64_t> sizes;
    for (int64_t b = 0; b < shape.components(); ++b) {
      for (int dim = 0; dim < shape.ragged_dims(); ++dim) {
        if (dim != ragged_dim) sizes.push_back(shape.size(b, dim));
      }
    }
    return Ragged(std::make_shared<const RaggedShape>(std::move(sizes), shape.ragged_dims() - 1));
  });
}

Ragged with_ragged_dim(const Ragged& ragged, int ragged_dim) {
  return kept_shape(*ragged, "with a dim", {ragged_dim}, [&] {
    const RaggedShape& shape = *ragged;
    std::vector<int64_t> sizes;
    for (int64_t b = 0; b < shape.components(); ++b) {
      for (int dim = 0; dim <= shape.ragged_dims(); ++dim) {
        if (dim == ragged_dim) sizes.push_back(1);
        if (dim < shape.ragged_dims()) sizes.push_back(shape.size(b, dim));
      }
    }
    return Ragged(std::make_shared<const RaggedShape>(std::move(sizes), shape.ragged_dims() + 1));
  });
}

std::vector<int64_t> to_indices(const Tensor& index, const char* what) {
  check(index.dtype() == DType::int64 || index.dtype() == DType::int32, "{} is {} (expected int64 or int32)", what,
        name(index.dtype()));
  check(index.dim() == 1, "{} has shape {} (expected a vector)", what, index.sizes());
  return index.to_vector<int64_t>();
}

Tensor index_tensor(std::span<const int64_t> values, DType dtype) {
  check(dtype == DType::int64 || dtype == DType::int32, "dtype {} for indices (expected int32 or int64)", name(dtype));
  const Tensor result = empty({static_cast<int64_t>(values.size())}, dtype);
  if (dtype == DType::int64) {
    std::copy(values.begin(), values.end(), result.data<int64_t>());
    return native::upload(result);
  }
  auto* next = result.data<int32_t>();
  for (const int64_t value : values) {
    check(value == static_cast<int32_t>(value), "the value {} does not fit int32 (expected int64)", value);
    *next++ = static_cast<int32_t>(value);
  }
  return native::upload(result);
}

Tensor affine_index(const RaggedShape& shape, std::span<const int64_t> first, std::span<const int64_t> strides) {
  const Tensor result = empty({shape.rows()}, DType::int64);
  shape.row_map().affine(first, strides, result.data<int64_t>());
  return native::upload(result);
}

}  // namespace deckle::nested
