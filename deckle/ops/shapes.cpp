#include "deckle/ops/shapes.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "deckle/base/check.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/launch.h"
#include "deckle/ops/shape_tools.h"

namespace deckle::shapes {

Dims reduced_shape(IntSpan sizes, std::optional<IntSpan> dim, bool keepdim) {
  const IntSpan dims = dim.value_or(IntSpan());
  std::vector<bool> reduced(sizes.size(), dims.empty());
  for (const int64_t one : dims) {
    const auto at = static_cast<size_t>(wrap_dim(one, sizes));
    if (sizes.empty()) continue;
    check(!reduced[at], "dim {} is given twice in {} (expected different dims)", one, dims);
    reduced[at] = true;
  }
  Dims result;
  for (size_t at = 0; at < sizes.size(); ++at) {
    if (!reduced[at]) result.push_back(sizes[at]);
    if (reduced[at] && keepdim) result.push_back(1);
  }
  return result;
}

double largest(DType dtype) {
  switch (dtype) {
    case DType::float64:
      return std::numeric_limits<double>::max();
    case DType::float32:
      return std::numeric_limits<float>::max();
    case DType::bfloat16:
      return 0x1.FEp127;
    case DType::float16:
      return 65504;
    default:
      fail("a {} has no infinities (expected a floating dtype)", name(dtype));
  }
}

int64_t reduced_numel(IntSpan sizes, std::optional<IntSpan> dim) { return numel_of(reduced_shape(sizes, dim, false)); }

int64_t reduced_count(IntSpan sizes, std::optional<IntSpan> dim) {
  const Dims kept = reduced_shape(sizes, dim, true);
  int64_t count = 1;
  for (size_t at = 0; at < sizes.size(); ++at) {
    if (kept[at] == 1) count *= sizes[at];  // a dim of size 1 that stays counts 1 as well
  }
  return count;
}

bool rows_are_empty(IntSpan sizes, std::optional<int64_t> dim) {
  return numel_of(sizes) == 0 && numel_of(without_dim(sizes, dim, false)) > 0;
}

Dims without_dim(IntSpan sizes, std::optional<int64_t> dim, bool keepdim) {
  return reduced_shape(sizes, dim ? IntSpan(&*dim, 1) : IntSpan(), keepdim);
}

int64_t quotient(int64_t a, int64_t b) {
  check(b != 0, "{} is divided by 0 (expected another divisor)", a);
  if (b == -1) return static_cast<int64_t>(0 - static_cast<uint64_t>(a));  // of the least number too
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

bool has_negative(const Tensor& x) {
  const bool can = x.dtype() == DType::int32 || x.dtype() == DType::int64;
  return can && x.numel() > 0 && raw::amin(x, {}, false).item<int64_t>() < 0;
}

bool has_improbable(const Tensor& x) {
  if (!x.device().is_cpu() || !is_floating(x.dtype()) || x.numel() == 0) return false;
  return !(raw::amin(x, {}, false).item() >= 0 && raw::amax(x, {}, false).item() <= 1);
}

DType sum_dtype(DType dtype) { return is_integral(dtype) ? DType::int64 : dtype; }

Dims broadcast_shape(IntSpan a, IntSpan b) { return broadcast_shapes(a, b); }

Dims concat(IntSpan a, IntSpan b) {
  Dims result(a);
  for (const int64_t value : b) result.push_back(value);
  return result;
}

Dims leading(IntSpan sizes, int64_t count) {
  return Dims(sizes.first(std::min(sizes.size(), static_cast<size_t>(std::max<int64_t>(count, 0)))));
}

Dims without_leading(IntSpan sizes, int64_t count) { return Dims(sizes.subspan(leading(sizes, count).size())); }

Dims resolved_shape(const Tensor& self, IntSpan sizes) { return resolved_sizes(self, sizes); }

bool can_view(const Tensor& self, IntSpan sizes) { return view_strides(self, sizes).has_value(); }

Dims flattened_shape(IntSpan sizes, int64_t start_dim, int64_t end_dim) {
  if (sizes.empty()) return {1};
  const int64_t first = wrap_dim(start_dim, sizes), last = wrap_dim(end_dim, sizes);
  check(first <= last, "start_dim {} comes after end_dim {} (expected start_dim <= end_dim)", start_dim, end_dim);
  Dims result = leading(sizes, first);
  result.push_back(numel_of(sizes.subspan(static_cast<size_t>(first), static_cast<size_t>(last - first + 1))));
  for (const int64_t size : without_leading(sizes, last + 1)) result.push_back(size);
  return result;
}

Dims dims_to_sum(IntSpan sizes, IntSpan target) {
  const auto rank = static_cast<int64_t>(sizes.size()), missing = rank - static_cast<int64_t>(target.size());
  check(missing >= 0, "{} does not broadcast to {}", target, sizes);
  Dims dims;
  for (int64_t dim = 0; dim < rank; ++dim) {
    const int64_t size = sizes[static_cast<size_t>(dim)];
    const int64_t wanted = dim < missing ? 1 : target[static_cast<size_t>(dim - missing)];
    check(wanted == size || wanted == 1, "{} does not broadcast to {}", target, sizes);
    if (dim < missing || wanted != size) dims.push_back(dim);
  }
  return dims;
}

Dims piece_sizes(int64_t size, int64_t piece) {
  Dims sizes;
  sizes.reserve(static_cast<size_t>(size / piece) + 1);  // too many end here
  for (int64_t start = 0; start < size || start == 0; start += piece) sizes.push_back(std::min(piece, size - start));
  return sizes;
}

Ragged single_rows(int64_t rows) { return Ragged::from_lengths(std::vector<int64_t>(static_cast<size_t>(rows), 1)); }

DType statistics_dtype(DType dtype) { return dtype == DType::float64 ? DType::float64 : DType::float32; }

Dims with_last(IntSpan sizes, int64_t size) { return with_size(sizes, static_cast<int64_t>(sizes.size()) - 1, size); }

Dims with_size(IntSpan sizes, int64_t dim, int64_t size) {
  Dims result(sizes);
  result[static_cast<size_t>(wrap_dim(dim, sizes))] = size;
  return result;
}

bool fits_except(IntSpan inner, IntSpan outer, int64_t dim) {
  for (size_t i = 0; i < inner.size(); ++i) {
    if (static_cast<int64_t>(i) != dim && inner[i] > outer[i]) return false;
  }
  return true;
}

Dims cat_shape(TensorList tensors, int64_t dim) {
  check(!tensors.empty(), "the list is empty (expected at least one tensor)");
  Dims result(tensors[0].sizes());
  check(!result.empty(), "the tensors have no dim to be joined along (expected dims; stack makes a new one)");
  const auto along = static_cast<size_t>(wrap_dim(dim, tensors[0].sizes()));
  for (size_t i = 1; i < tensors.size(); ++i) {
    const IntSpan sizes = tensors[i].sizes();
    bool agree = sizes.size() == result.size();
    for (size_t d = 0; agree && d < sizes.size(); ++d) agree = d == along || sizes[d] == result[d];
    check(agree, "tensor {} has shape {}, tensor 0 has {} (expected the same outside dim {})", i, sizes, tensors[0].sizes(), dim);
    check(!__builtin_add_overflow(result[along], sizes[along], &result[along]),
          "the sizes along dim {} add up to more than 64 bits hold (expected fewer than 2^63)", dim);
  }
  return result;
}

DType cat_dtype(TensorList tensors) {
  check(!tensors.empty(), "the list is empty (expected at least one tensor)");
  for (size_t i = 1; i < tensors.size(); ++i) {
    check(tensors[i].dtype() == tensors[0].dtype(), "tensor {} is {}, tensor 0 is {} (expected one dtype)", i,
          name(tensors[i].dtype()), name(tensors[0].dtype()));
  }
  return tensors[0].dtype();
}

Dims sizes_along(TensorList tensors, int64_t dim) {
  Dims result;
  for (const Tensor& tensor : tensors) result.push_back(tensor.size(dim));
  return result;
}

int64_t rank_of(TensorList tensors) {
  check(!tensors.empty(), "the list is empty (expected at least one tensor)");
  return tensors[0].dim();
}

int64_t cat_rows(IntSpan lengths) { return std::accumulate(lengths.begin(), lengths.end(), int64_t{0}); }

Dims inverse_permutation(IntSpan dims) {
  Dims result(dims.size(), 0);
  for (size_t i = 0; i < dims.size(); ++i)
    result[static_cast<size_t>(dims[i] < 0 ? dims[i] + static_cast<int64_t>(dims.size()) : dims[i])] = static_cast<int64_t>(i);
  return result;
}

Ragged one_component(int64_t rows) { return Ragged::from_lengths(std::vector<int64_t>{rows}); }

Dims without_ones(IntSpan sizes) {
  Dims result;
  for (const int64_t size : sizes) {
    if (size != 1) result.push_back(size);
  }
  return result;
}

Dims moved_dims(IntSpan source, IntSpan destination, int64_t rank) {
  check(source.size() == destination.size(), "source {} and destination {} differ in length (expected one place for each dim)",
        source, destination);
  if (rank == 0) return {};
  Dims order(static_cast<size_t>(rank), -1);
  std::vector<bool> moved(static_cast<size_t>(rank), false);
  for (size_t i = 0; i < source.size(); ++i) {
    const auto from = static_cast<size_t>(launch::wrap_dim(source[i], rank)),
               to = static_cast<size_t>(launch::wrap_dim(destination[i], rank));
    check(!moved[from] && order[to] < 0, "a dim is given twice in {} or {} (expected different dims)", source, destination);
    moved[from] = true;
    order[to] = static_cast<int64_t>(from);
  }
  size_t next = 0;
  for (int64_t& place : order) {
    if (place >= 0) continue;
    while (moved[next]) ++next;
    place = static_cast<int64_t>(next++);
  }
  return order;
}

Dims aligned_sizes(IntSpan sizes, IntSpan repeats) {
  check(repeats.size() >= sizes.size(), "{} repeats for shape {} (expected {} or more)", repeats.size(), sizes, sizes.size());
  check(std::all_of(repeats.begin(), repeats.end(), [](int64_t times) { return times >= 0; }),
        "a number in repeats {} is negative (expected 0 or more)", repeats);
  Dims result(repeats.size() - sizes.size(), 1);
  for (const int64_t size : sizes) result.push_back(size);
  return result;
}

Dims alternate(IntSpan a, IntSpan b) {
  Dims result;
  for (size_t i = 0; i < a.size(); ++i) {
    result.push_back(a[i]);
    result.push_back(b[i]);
  }
  return result;
}

Dims products(IntSpan a, IntSpan b) {
  Dims result;
  for (size_t i = 0; i < a.size(); ++i) result.push_back(numel_of({a[i], b[i]}));
  return result;
}

Dims end_padding(IntSpan sizes, IntSpan padded) {
  check(padded.size() == sizes.size(), "sizes {} for shape {} (expected one for each dim)", padded, sizes);
  Dims result;
  for (size_t dim = sizes.size(); dim-- > 0;) {
    check(padded[dim] >= sizes[dim], "shape {} does not fit into {} (expected no smaller sizes)", sizes, padded);
    result.push_back(0);
    result.push_back(padded[dim] - sizes[dim]);
  }
  return result;
}

Dims joined_shape(IntSpan sizes, IntSpan last) {
  check(!last.empty() && last.size() <= sizes.size() && IntSpan(sizes.last(last.size())) == last,
        "the sizes to normalise are {} and a tensor has shape {} (expected its last dims)", last, sizes);
  Dims joined(sizes.first(sizes.size() - last.size()));
  joined.push_back(numel_of(last));
  return joined;
}

int64_t quantile_place(int64_t n, double q) { return static_cast<int64_t>(q * static_cast<double>(n - 1)); }

double quantile_weight(int64_t n, double q) { return q * static_cast<double>(n - 1) - static_cast<double>(quantile_place(n, q)); }

Dims grouped_channels(IntSpan sizes, int64_t groups) {
  return {sizes[0], numel_of(sizes.subspan(1).first(sizes.size() - 2)), groups, sizes.back() / groups};
}

}  // namespace deckle::shapes
