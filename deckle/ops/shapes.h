#pragma once

#include <optional>

#include "deckle/core/dims.h"
#include "deckle/core/ragged_shape.h"
#include "deckle/core/tensor.h"
#include "deckle/ops/windows.h"

/// Rules on sizes and dtypes that op entries call (declared in ops/functions.yaml, `helpers:`).
namespace deckle::shapes {

/// `sizes` without the dims of `dim` (with them as 1 if keepdim). None given, or an empty list: without all of them.
Dims reduced_shape(IntSpan sizes, std::optional<IntSpan> dim, bool keepdim);

/// How many elements go into one of such a reduction, and how many come out of it.
int64_t reduced_count(IntSpan sizes, std::optional<IntSpan> dim);
int64_t reduced_numel(IntSpan sizes, std::optional<IntSpan> dim);

/// Whether there is a row along dim (none given: the whole is one) and it has no elements.
bool rows_are_empty(IntSpan sizes, std::optional<int64_t> dim);

/// `sizes` without one dim (none given: without all), or with size 1 there.
Dims without_dim(IntSpan sizes, std::optional<int64_t> dim, bool keepdim);

/// Of a sum: int64 for integers and bool, the same otherwise.
DType sum_dtype(DType dtype);

inline bool floating(DType dtype) { return is_floating(dtype); }
/// The largest finite number of a floating dtype.
double largest(DType dtype);

/// a / b rounded down; throws for b = 0.
int64_t quotient(int64_t a, int64_t b);

/// Whether a tensor of integers has one below 0. It reads the values: on a GPU it waits for them.
bool has_negative(const Tensor& x);

/// Whether a tensor in the host's memory has an element that is no probability. It reads the values, so on a GPU it is false.
bool has_improbable(const Tensor& x);

/// NumPy's broadcasting rules.
Dims broadcast_shape(IntSpan a, IntSpan b);

Dims concat(IntSpan a, IntSpan b);

/// Of log-sum-exp and other row statistics: float64 for float64, float32 otherwise.
DType statistics_dtype(DType dtype);

/// `sizes` with `size` for the last dim.
Dims with_last(IntSpan sizes, int64_t size);

/// `sizes` with `size` for one dim.
Dims with_size(IntSpan sizes, int64_t dim, int64_t size);

/// inner[i] <= outer[i] in every dim but `dim` (-1: in every dim).
bool fits_except(IntSpan inner, IntSpan outer, int64_t dim);

/// Of the concatenation along dim; throws unless the tensors agree in their other dims.
Dims cat_shape(TensorList tensors, int64_t dim);

/// The one dtype of a list; throws naming two that differ.
DType cat_dtype(TensorList tensors);

/// size(dim) of every tensor.
Dims sizes_along(TensorList tensors, int64_t dim);

/// Number of dims of the first tensor; throws if there is none.
int64_t rank_of(TensorList tensors);

/// The sum of the lengths.
int64_t cat_rows(IntSpan lengths);

/// permute(permute(x, dims), inverse_permutation(dims)) is x.
Dims inverse_permutation(IntSpan dims);

/// The first `count` of sizes (all, if there are no more), and those after them.
Dims leading(IntSpan sizes, int64_t count);
Dims without_leading(IntSpan sizes, int64_t count);

/// `sizes` with -1, at most once, replaced by what makes the number of elements that of `self`; throws if nothing does.
Dims resolved_shape(const Tensor& self, IntSpan sizes);

/// Whether `self` has the shape `sizes` (as many elements) without a copy.
bool can_view(const Tensor& self, IntSpan sizes);

/// `sizes` with the dims from start_dim to end_dim as one; of no dims at all: [1].
Dims flattened_shape(IntSpan sizes, int64_t start_dim, int64_t end_dim);

/// The dims of `sizes` over which a sum, its dims kept, leads to `target` up to leading dims of size 1; throws if none does.
Dims dims_to_sum(IntSpan sizes, IntSpan target);

/// Of the pieces of a dim: each `piece`, the last what remains; at least one.
Dims piece_sizes(int64_t size, int64_t piece);

/// Components of one row each.
Ragged single_rows(int64_t rows);

/// One component of all rows.
Ragged one_component(int64_t rows);

inline int64_t value_or(std::optional<int64_t> value, int64_t otherwise) { return value.value_or(otherwise); }

Dims without_ones(IntSpan sizes);

/// The order of permute that brings the dims `source` to the places `destination`.
Dims moved_dims(IntSpan source, IntSpan destination, int64_t rank);

/// `sizes` behind as many ones as there are more repeats. Throws for fewer or negative repeats.
Dims aligned_sizes(IntSpan sizes, IntSpan repeats);

/// [a0, b0, a1, b1, ...] and [a0 b0, a1 b1, ...] of lists of one length. Throws where a product overflows 64 bits.
Dims alternate(IntSpan a, IntSpan b);
Dims products(IntSpan a, IntSpan b);

/// The padding that pad takes, after each dim up to `padded`. Throws where a size is smaller.
Dims end_padding(IntSpan sizes, IntSpan padded);

/// `sizes` with the last dims, whose sizes are `last`, as one.
Dims joined_shape(IntSpan sizes, IntSpan last);

/// Of n ordered elements the place below which the part q of them lies, and how far it is from there to the next.
int64_t quantile_place(int64_t n, double q);
double quantile_weight(int64_t n, double q);

/// [rows, positions, groups, channels of a group] of [rows, ..., channels].
Dims grouped_channels(IntSpan sizes, int64_t groups);

/// Of a reduction over the rows of each component: [components, ...]. Throws unless there are as many rows as the ragged shape
/// has.
Dims segment_shape(IntSpan sizes, const Ragged& ragged);

/// The sizes of an index [index rows, ...] into the columns of values [rows, ...], of as many components; no wider than they are.
Dims segment_index_shape(const Tensor& values, const Ragged& ragged, const Tensor& index, const Ragged& index_ragged);

/// The sizes of packed values, after the same check.
Dims segment_values_shape(IntSpan sizes, const Ragged& ragged);

/// Of the rows of `to`, one sequence for each of `from`: `values` are those of `from`.
Dims moved_shape(const Tensor& values, const Ragged& from, const Ragged& to);

/// Of packed values with the regular dims of rows [components, ...].
Dims packed_shape(const Tensor& rows, const Ragged& ragged);

/// [elements of self]. Throws unless the two shapes are those of matrices and of their transposes, and self is made of such.
Dims transposed_shape(const Tensor& self, const Ragged& shape, const Ragged& transposed);

/// [elements of all products] of one matrix product per component. Throws unless every shape has two ragged dims, the operands
/// have their elements, and each product's rows, columns and inner dim agree.
Dims grouped_shape(const Tensor& self, const Ragged& self_shape, const Tensor& other, const Ragged& other_shape,
                   const Ragged& product_shape, bool transpose_self, bool transpose_other);

}  // namespace deckle::shapes
