#include "deckle/nested/interop.h"

#include <numeric>
#include <vector>

#include "deckle/base/check.h"
#include "deckle/core/factory_device.h"
#include "deckle/core/rethrow.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/nested/rows.h"
#include "deckle/nested/support.h"
#include "deckle/ops/copy.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/shape.h"

namespace deckle {
namespace {

using nested::index_tensor;
using nested::to_indices;

void require_rows(const Tensor& values) {
  check(values.defined() && values.dim() >= 1, "values have no dims (expected one of rows)");
}

/// Component b is rows [starts[b], starts[b] + lengths[b]): a view if the components are contiguous.
NestedTensor from_ranges(const Tensor& values, std::span<const int64_t> starts, std::span<const int64_t> lengths) {
  require_rows(values);
  const Ragged ragged = Ragged::from_lengths(lengths);
  bool packed = true;
  for (size_t b = 0; b < lengths.size(); ++b) {
    check(starts[b] >= 0 && starts[b] <= values.size(0) && lengths[b] <= values.size(0) - starts[b],
          "component {} holds {} rows from {} on, but values of shape {} have {} (expected rows within them)", b, lengths[b],
          starts[b], values.sizes(), values.size(0));
    packed = packed && starts[b] == starts[0] + ragged->offsets()[b];
  }
  const int64_t first = starts.empty() ? 0 : starts[0];
  if (packed)
    return {first == 0 && ragged->rows() == values.size(0) ? values : slice(values, 0, first, first + ragged->rows()), ragged};
  const Tensor rows = empty({ragged->rows()}, DType::int64);
  int64_t* next = rows.data<int64_t>();
  for (size_t b = 0; b < lengths.size(); ++b) {
    std::iota(next, next + lengths[b], starts[b]);
    next += lengths[b];
  }
  return {index_select_or(values, native::move_to(rows, values.device())), ragged};
}

/// Component b is rows [offsets[b], offsets[b + 1]).
NestedTensor from_offset_tensor(const Tensor& values, const Tensor& offset_tensor, const char* what) {
  const std::vector<int64_t> offsets = to_indices(offset_tensor, what);
  check(!offsets.empty(), "{} is empty (expected one more than the components)", what);
  check(offsets[0] >= 0, "{} must not be negative: [0] is {} (expected 0 or more)", what, offsets[0]);
  std::vector<int64_t> lengths;
  for (size_t b = 0; b + 1 < offsets.size(); ++b) {
    check(offsets[b + 1] >= offsets[b], "{} must not fall: [{}] is {}, [{}] is {} (expected as much or more)", what, b,
          offsets[b], b + 1, offsets[b + 1]);
    lengths.push_back(offsets[b + 1] - offsets[b]);
  }
  return from_ranges(values, std::span(offsets).first(lengths.size()), lengths);
}

std::vector<int64_t> matrix(const Tensor& x, const Tensor& like, const char* what) {
  check(x.dim() == 2 && x.sizes() == like.sizes(), "{} has shape {} (expected [components, dims], as sizes {})", what, x.sizes(),
        like.sizes());
  return to_indices(reshape(x, {x.numel()}), what);
}

/// Throws unless all elements that component b reads lie in a buffer of `count`.
void require_inside(size_t b, std::span<const int64_t> sizes, std::span<const int64_t> strides, int64_t offset, int64_t count) {
  if (numel_of(sizes) == 0) return;
  int64_t lowest = offset, highest = offset;
  bool overflow = false;
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    int64_t reach = 0;
    int64_t& end = strides[dim] < 0 ? lowest : highest;
    overflow |= __builtin_mul_overflow(sizes[dim] - 1, strides[dim], &reach);
    overflow |= __builtin_add_overflow(end, reach, &end);
  }
  check(!overflow && lowest >= 0 && highest < count,
        "component {} of sizes {}, strides {} and offset {} reads outside the buffer's {} elements (expected places within)", b,
        IntSpan(sizes), IntSpan(strides), offset, count);
}

}  // namespace

JaggedLayout to_jagged(const NestedTensor& x, DType offsets) {
  return call_as("to_jagged", {{"x", x}}, [&] { return JaggedLayout{x.values(), x.offsets(offsets), Tensor()}; });
}

NestedTensor from_jagged(const JaggedLayout& layout) {
  return call_as("from_jagged", [&] {
    if (!layout.lengths.defined()) return from_offset_tensor(layout.values, layout.offsets, "offsets");
    const std::vector<int64_t> starts = to_indices(layout.offsets, "offsets"), lengths = to_indices(layout.lengths, "lengths");
    check(starts.size() == lengths.size() + 1, "{} offsets for {} lengths (expected one more)", starts.size(), lengths.size());
    return from_ranges(layout.values, std::span(starts).first(lengths.size()), lengths);
  });
}

StridedLayout to_strided(const NestedTensor& x) {
  return call_as("to_strided", [&]() -> StridedLayout {
    check(x.ragged().defined(), "shape {} has no ragged dim, its values are an ordinary tensor (expected a ragged dim)",
          nested::ShapeOf{x});
    const RaggedShape& shape = *x.ragged();
    const IntSpan regular = x.values().sizes().subspan(1);
    const auto dims = static_cast<int64_t>(shape.ragged_dims() + regular.size());
    const int64_t inner = numel_of(regular);
    std::vector<int64_t> sizes, strides, offsets;
    for (int64_t b = 0; b < shape.components(); ++b) {
      std::vector<int64_t> own;
      for (int dim = 0; dim < shape.ragged_dims(); ++dim) own.push_back(shape.size(b, dim));
      own.insert(own.end(), regular.begin(), regular.end());
      sizes.insert(sizes.end(), own.begin(), own.end());
      const Dims row_major = contiguous_strides(own);
      strides.insert(strides.end(), row_major.begin(), row_major.end());
      offsets.push_back(shape.offsets()[static_cast<size_t>(b)] * inner);
    }
    const auto table = [&](const std::vector<int64_t>& values) { return view(index_tensor(values), {shape.components(), dims}); };
    return {reshape(x.values(), {x.values().numel()}), table(sizes), table(strides), index_tensor(offsets)};
  });
}

NestedTensor from_strided(const StridedLayout& layout, int ragged_dims) {
  return call_as("from_strided", [&]() -> NestedTensor {
    check(layout.buffer.defined(), "the buffer is undefined (expected a vector)");
    check(layout.buffer.dim() == 1, "the buffer has shape {} (expected a vector)", layout.buffer.sizes());
    check(layout.sizes.defined() && layout.strides.defined() && layout.offsets.defined(),
          "sizes, strides or offsets are undefined (expected all three)");
    check(layout.sizes.dim() == 2 && layout.sizes.size(1) >= 1, Argument{"sizes"}, "have shape {} (expected [components, dims])",
          layout.sizes.sizes());
    const auto components = static_cast<size_t>(layout.sizes.size(0)), dims = static_cast<size_t>(layout.sizes.size(1));
    check(ragged_dims >= 1 && static_cast<size_t>(ragged_dims) <= dims, Argument{"ragged_dims"}, "is {} (expected 1..{})",
          ragged_dims, dims);
    const std::vector<int64_t> sizes = matrix(layout.sizes, layout.sizes, "sizes"),
                               strides = matrix(layout.strides, layout.sizes, "strides"),
                               offsets = to_indices(layout.offsets, "offsets");
    check(offsets.size() == components, "{} offsets for {} components (expected as many)", offsets.size(), components);
    auto ragged = static_cast<size_t>(ragged_dims);
    for (size_t b = 1; b < components; ++b) {
      for (size_t dim = ragged; dim < dims; ++dim) {
        if (sizes[b * dims + dim] != sizes[dim]) ragged = dim + 1;
      }
    }
    std::vector<int64_t> ragged_sizes;
    for (size_t b = 0; b < components; ++b) {
      const std::span<const int64_t> own = std::span(sizes).subspan(b * dims, dims);
      require_inside(b, own, std::span(strides).subspan(b * dims, dims), offsets[b], layout.buffer.size(0));
      ragged_sizes.insert(ragged_sizes.end(), own.begin(), own.begin() + static_cast<std::ptrdiff_t>(ragged));
    }
    const Ragged shape(std::make_shared<const RaggedShape>(std::move(ragged_sizes), static_cast<int>(ragged)));
    Dims values_sizes = {shape->rows()};
    for (size_t dim = ragged; dim < dims; ++dim) values_sizes.push_back(components == 0 ? 0 : sizes[dim]);
    const RaggedShape all{std::vector<int64_t>(sizes), static_cast<int>(dims)};
    const OnDevice there(layout.buffer.device());
    const Tensor elements = nested::affine_index(all, offsets, strides);
    return {view(index_select_or(layout.buffer, elements), values_sizes), shape};
  });
}

VarlenLayout to_varlen(const NestedTensor& x) {
  return call_as("to_varlen", {{"x", x}}, [&] {
    return VarlenLayout{x.values(), x.offsets(DType::int32), x.ragged()->max_size()};
  });
}

NestedTensor from_varlen(const Tensor& values, const Tensor& cu_seqlens) {
  return call_as("from_varlen", [&] {
    require_rows(values);
    const std::vector<int64_t> offsets = to_indices(cu_seqlens, "cu_seqlens");
    check(!offsets.empty(), "cu_seqlens is empty (expected one more than the components)");
    check(offsets[0] == 0 && offsets.back() == values.size(0),
          "cu_seqlens goes from {} to {}, but values of shape {} have rows 0..{} (expected these)", offsets[0], offsets.back(),
          values.sizes(), values.size(0));
    return from_offset_tensor(values, cu_seqlens, "cu_seqlens");
  });
}

ArrowList to_arrow(const NestedTensor& x, DType offsets) {
  return call_as("to_arrow", {{"x", x}}, [&] { return ArrowList{x.offsets(offsets), x.values()}; });
}

NestedTensor from_arrow(const ArrowList& list) {
  return call_as("from_arrow", [&] { return from_offset_tensor(list.values, list.offsets, "offsets"); });
}

}  // namespace deckle
