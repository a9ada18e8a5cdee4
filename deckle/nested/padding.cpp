#include "deckle/nested/padding.h"

#include <algorithm>

#include "deckle/base/check.h"
#include "deckle/core/factory_device.h"
#include "deckle/core/kept.h"
#include "deckle/core/rethrow.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/nested/rows.h"
#include "deckle/nested/support.h"
#include "deckle/ops/copy.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/shape.h"

namespace deckle {
namespace {

std::vector<int64_t> padded_sizes(const NestedTensor& x, const PadOptions& options) {
  check(x.ragged_dims() > 0, "shape {} has no ragged dim to pad (expected one)", nested::ShapeOf{x});
  check(options.sizes.size() <= static_cast<size_t>(x.ragged_dims()),
        "{} padded sizes for the {} ragged dims of shape {} (expected one each, or none)", options.sizes.size(), x.ragged_dims(),
        nested::ShapeOf{x});
  std::vector<int64_t> result;
  for (int dim = 0; dim < x.ragged_dims(); ++dim) {
    const auto at = static_cast<size_t>(dim);
    const int64_t longest = x.ragged()->max_size(dim);
    result.push_back(at < options.sizes.size() && options.sizes[at] != 0 ? options.sizes[at] : longest);
    check(longest <= result.back(),
          "a component of length {} in dim {} does not fit the padded size {} (expected no longer ones)", longest, dim + 1,
          result.back());
  }
  return result;
}

/// The index of every packed row among the rows of a padded [B, sizes..].
std::vector<int64_t> padded_rows(const RaggedShape& shape, std::span<const int64_t> sizes, PadSide side) {
  check(side == PadSide::right || side == PadSide::left, Argument{"side"}, "is {} (expected right or left)",
        static_cast<int>(side));
  const auto dims = static_cast<size_t>(shape.ragged_dims());
  std::vector<int64_t> first(static_cast<size_t>(shape.components())), strides(shape.sizes().size());
  for (size_t b = 0; b < first.size(); ++b) {
    int64_t stride = 1;
    for (size_t dim = dims; dim-- > 0;) {
      if (side == PadSide::left) first[b] += (sizes[dim] - shape.sizes()[b * dims + dim]) * stride;
      strides[b * dims + dim] = stride;
      stride *= sizes[dim];
    }
    first[b] += static_cast<int64_t>(b) * stride;
  }
  return shape.row_map().affine(first, strides);
}

/// What an index depends on beside the shape.
Dims key_of(std::span<const int64_t> sizes, PadSide side) {
  Dims key(sizes);
  key.push_back(static_cast<int64_t>(side));
  return key;
}

Dims with_rows(std::span<const int64_t> leading, const Tensor& values) {
  Dims sizes(leading);
  for (const int64_t size : values.sizes().subspan(1)) sizes.push_back(size);
  return sizes;
}

std::vector<int64_t> batch_of(const NestedTensor& x, const PadOptions& options) {
  std::vector<int64_t> sizes = padded_sizes(x, options);
  sizes.insert(sizes.begin(), x.components());
  return sizes;
}

}  // namespace

Tensor to_padded(const NestedTensor& x, const PadOptions& options) {
  return call_as("to_padded", {{"x", x}}, [&] {
    const std::vector<int64_t> batch = batch_of(x, options);
    const nested::OnDeviceOf there(x);
    const Tensor index = kept_value(*x.ragged(), "padded", key_of(batch, options.side), [&] {
      std::vector<int64_t> rows(static_cast<size_t>(numel_of(batch)), -1);
      int64_t row = 0;
      for (const int64_t padded : padded_rows(*x.ragged(), std::span(batch).subspan(1), options.side))
        rows[static_cast<size_t>(padded)] = row++;
      return nested::index_tensor(rows);
    });
    return view(index_select_or(x.values(), index, options.value), with_rows(batch, x.values()));
  });
}

Tensor padding_mask(const NestedTensor& x, const PadOptions& options) {
  return call_as("padding_mask", {{"x", x}}, [&] {
    const std::vector<int64_t> batch = batch_of(x, options);
    const nested::OnDeviceOf there(x);
    const Tensor made = kept_value(*x.ragged(), "padding mask", key_of(batch, options.side), [&] {
      const Tensor mask = zeros_raw(batch, DType::bool_, {});
      for (const int64_t padded : padded_rows(*x.ragged(), std::span(batch).subspan(1), options.side))
        mask.data<bool>()[padded] = true;
      return native::upload(mask);
    });
    return clone(made);  // the caller may write into it
  });
}

NestedTensor from_padded(const Tensor& padded, const Ragged& shape, PadSide side) {
  return call_as("from_padded", [&]() -> NestedTensor {
    check(shape.defined(), "the ragged shape is undefined (expected a defined one)");
    const int ragged_dims = shape->ragged_dims();
    check(padded.dim() > ragged_dims, "shape {} (expected [B, {} padded dim{}, ...])", padded.sizes(), ragged_dims,
          ragged_dims == 1 ? "" : "s");
    check(shape->components() == padded.size(0), "{} lengths for a batch of {} (expected as many)", shape->components(),
          padded.size(0));
    for (int64_t b = 0; b < shape->components(); ++b) {
      for (int dim = 0; dim < ragged_dims; ++dim) {
        check(shape->size(b, dim) <= padded.size(dim + 1), "length {} of component {} is too long (expected 0..{})",
              shape->size(b, dim), b, padded.size(dim + 1));
      }
    }
    const OnDevice there(padded.device());
    const IntSpan sizes = padded.sizes().subspan(1, static_cast<size_t>(ragged_dims));
    const Tensor index = kept_value(*shape, "of padded", key_of(sizes, side),
                                    [&] { return nested::index_tensor(padded_rows(*shape, sizes, side)); });
    return {index_select_or(flatten(padded, 0, ragged_dims), index), shape};
  });
}

NestedTensor from_mask(const Tensor& padded, const Tensor& mask) {
  return call_as("from_mask", [&]() -> NestedTensor {
    check(
        mask.dtype() == DType::bool_ && mask.dim() == 2 && padded.dim() >= 2 && mask.sizes() == IntSpan(padded.sizes().first(2)),
        "mask {} {} for padded {} (expected a bool mask [B, L] for [B, L, ...])", mask.sizes(), name(mask.dtype()),
        padded.sizes());
    const Tensor rows = flat_nonzero(mask);
    std::vector<int64_t> lengths(static_cast<size_t>(mask.size(0)), 0);
    for (const int64_t row : rows.to_vector<int64_t>()) ++lengths[static_cast<size_t>(row / mask.size(1))];
    return NestedTensor::from_lengths(index_select_or(flatten(padded, 0, 1), rows), lengths);
  });
}

}  // namespace deckle
