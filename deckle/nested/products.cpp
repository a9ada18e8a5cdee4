// Matrix products of nested tensors. A component's matrix may have ragged rows, ragged columns or both; grouped_mm multiplies all
// components in one launch. Shapes of its matrices are kept with those of the operands, so that a GPU has each once.

#include "deckle/nested/products.h"

#include <utility>
#include <vector>

#include "deckle/base/check.h"
#include "deckle/core/kept.h"
#include "deckle/core/rethrow.h"
#include "deckle/nested/broadcast.h"
#include "deckle/nested/generated/matmul.h"
#include "deckle/nested/generated/pointwise.h"
#include "deckle/nested/generated/shape.h"
#include "deckle/nested/support.h"
#include "deckle/ops/launch.h"

namespace deckle {
namespace {

/// One matrix per component, packed. Whether rows and columns are ragged follows from the operand's dims, not from its lengths,
/// and decides the dims of the product.
struct Matrices {
  Tensor values;
  Ragged shape;  // two ragged dims: rows and columns of each, before `transposed`; undefined: values are [B, rows, cols]
  bool ragged_rows = false;
  bool ragged_cols = false;
  bool transposed = false;

  int64_t components() const { return shape.defined() ? shape->components() : values.size(0); }
  int64_t rows(int64_t b) const { return size(b, transposed ? 1 : 0); }
  int64_t cols(int64_t b) const { return size(b, transposed ? 0 : 1); }

 private:
  int64_t size(int64_t b, int dim) const { return shape.defined() ? shape->size(b, dim) : values.size(dim + 1); }
};

Ragged matrix_shapes(int64_t count, auto rows, auto cols) {
  std::vector<int64_t> sizes;
  for (int64_t b = 0; b < count; ++b) {
    sizes.push_back(rows(b));
    sizes.push_back(cols(b));
  }
  return Ragged(std::make_shared<const RaggedShape>(std::move(sizes), 2));
}

Matrices transposed_if(Matrices matrices, bool transposed) {
  matrices.transposed = transposed;
  if (transposed) std::swap(matrices.ragged_rows, matrices.ragged_cols);
  return matrices;
}

Matrices matrices_of(const NestedTensor& x, bool transposed) {
  check(x.dim() == 3, "shape {} is no batch of matrices (expected [B, rows, cols])", nested::ShapeOf{x});
  const Tensor& values = x.values();
  if (x.ragged_dims() == 2) return transposed_if({values, x.ragged(), true, true}, transposed);
  if (x.ragged_dims() == 0) return transposed_if({values, Ragged()}, transposed);
  const int64_t width = values.size(1);
  const OnDevice there(values.device());
  const Ragged shape = kept_shape(*x.ragged(), "matrices of rows", {width}, [&] {
    return matrix_shapes(
        x.components(), [&](int64_t b) { return x.ragged()->size(b); }, [&](int64_t) { return width; });
  });
  return transposed_if({values, shape, true}, transposed);
}

/// A dense [B, rows, cols], or one matrix that all components share.
Matrices matrices_of(const Tensor& x, int64_t components, bool transposed) {
  check(x.dim() == 2 || (x.dim() == 3 && (x.size(0) == components || x.size(0) == 1)),
        "a dense operand of shape {} for {} components (expected [{}, rows, cols] or [rows, cols])", x.sizes(), components,
        components);
  return transposed_if({expand(x, {components, x.size(-2), x.size(-1)}), Ragged()}, transposed);
}

/// The matrices of a dense operand as shapes of components, kept with the ragged operand beside it.
void give_shape(Matrices& dense, const Ragged& beside) {
  if (dense.shape.defined()) return;
  const int64_t components = dense.values.size(0), rows = dense.values.size(1), cols = dense.values.size(2);
  dense.shape = kept_shape(*beside, "equal matrices", {components, rows, cols}, [&] {
    return matrix_shapes(
        components, [&](int64_t) { return rows; }, [&](int64_t) { return cols; });
  });
}

Tensor batch_of(const Matrices& x) { return x.transposed ? transpose(x.values, -2, -1) : x.values; }

NestedTensor product(Matrices a, Matrices b) {
  const OnDevice there(a.values.device());
  const bool dense = !a.shape.defined() && !b.shape.defined();
  if (!dense) {
    give_shape(a, b.shape);
    give_shape(b, a.shape);
  }
  const int64_t components = a.components();
  check(b.components() == components, "self has {} components, other has {} (expected as many)", components, b.components());
  for (int64_t i = 0; i < components; ++i) {
    check(a.cols(i) == b.rows(i), "component {} multiplies [{}, {}] by [{}, {}] (expected equal inner dims)", i, a.rows(i),
          a.cols(i), b.rows(i), b.cols(i));
  }
  if (dense) return {bmm(batch_of(a), batch_of(b)), Ragged()};
  const int64_t which[] = {a.transposed, b.transposed};
  const Ragged shape = kept_shape(*a.shape, "product", which,
                                  [&] {
                                    return matrix_shapes(
                                        components, [&](int64_t i) { return a.rows(i); }, [&](int64_t i) { return b.cols(i); });
                                  },
                                  {&b.shape, 1});
  const Tensor values = grouped_mm(a.values, a.shape, b.values, b.shape, shape, a.transposed, b.transposed);
  if (b.ragged_cols) return {values, shape};
  // Regular sizes come from the operands: they are known for an empty batch as well.
  const int64_t cols = b.values.size(b.transposed ? -2 : -1);
  if (!a.ragged_rows) return {view(values, {components, a.values.size(a.transposed ? -1 : -2), cols}), Ragged()};
  const Ragged ragged = kept_shape(*a.shape, "rows of products", {int64_t{a.transposed}}, [&] {
    std::vector<int64_t> lengths;
    for (int64_t i = 0; i < components; ++i) lengths.push_back(a.rows(i));
    return Ragged::from_lengths(lengths);
  });
  return NestedTensor::of_op(view(values, {ragged->rows(), cols}), ragged);
}

void require_no_transpose(const NestedTensor& x, const MatmulOptions& options) {
  check(!options.transpose_self && !options.transpose_other,
        "the last two dims of shape {} are regular (expected ragged ones; transpose(x, -1, -2) is free)", nested::ShapeOf{x});
}

/// Whether the last two dims are regular: then the product is one on the values.
bool regular_matrices(const NestedTensor& x) { return x.values().dim() >= 3 && x.ragged_dims() > 0; }

}  // namespace

namespace nested {

NestedTensor matmul(const NestedTensor& self, const NestedTensor& other) { return matmul(self, other, MatmulOptions()); }
NestedTensor matmul(const NestedTensor& self, const Tensor& other) { return matmul(self, other, MatmulOptions()); }
NestedTensor matmul(const Tensor& self, const NestedTensor& other) { return matmul(self, other, MatmulOptions()); }

NestedTensor bmm(const NestedTensor& self, const NestedTensor& mat2) {
  return product(matrices_of(self, false), matrices_of(mat2, false));
}

NestedTensor bmm(const NestedTensor& self, const Tensor& mat2) {
  return product(matrices_of(self, false), matrices_of(mat2, self.components(), false));
}

NestedTensor bmm(const Tensor& self, const NestedTensor& mat2) {
  return product(matrices_of(self, mat2.components(), false), matrices_of(mat2, false));
}

NestedTensor linear(const NestedTensor& input, const Tensor& weight, const Tensor& bias) {
  if (weight.dim() != 3) return NestedTensor::of_op(linear(input.values(), weight, bias), input.ragged());
  check(input.ragged_dims() > 0, Argument{"input"},
        "has shape {} (expected ragged dims for a weight per component; bmm multiplies regular matrices)",
        nested::ShapeOf{input});
  check(weight.size(0) == input.components() && weight.size(2) == input.values().size(-1), Argument{"weight"},
        "has shape {} (expected [{}, out, {}] or [out, {}])", weight.sizes(), input.components(), input.values().size(-1),
        input.values().size(-1));
  // All dims between the batch and the last one are rows.
  const NestedTensor rows = input.dim() > 3 ? flatten(input, 1, -2) : input;
  NestedTensor result = product(matrices_of(rows, false), matrices_of(weight, input.components(), true));
  if (bias.defined()) {
    check(bias.size(-1) == weight.size(1) && (bias.dim() == 1 || (bias.dim() == 2 && bias.size(0) == input.components())),
          Argument{"bias"}, "has shape {} (expected [{}] or [{}, {}])", bias.sizes(), weight.size(1), input.components(),
          weight.size(1));
    result = add(result, bias.dim() == 1 ? bias : unsqueeze(bias, 1));
  }
  Dims sizes(input.values().sizes());
  sizes.back() = weight.size(1);
  return NestedTensor::of_op(view(result.values(), sizes), input.ragged());
}

}  // namespace nested

NestedTensor matmul(const NestedTensor& self, const NestedTensor& other, const MatmulOptions& options) {
  return call_as("matmul", {{"self", self}, {"other", other}}, [&]() -> NestedTensor {
    if (!regular_matrices(self) || !regular_matrices(other))
      return product(matrices_of(self, options.transpose_self), matrices_of(other, options.transpose_other));
    require_no_transpose(self, options);
    nested::require_same_ragged(self, other);
    return NestedTensor::of_op(matmul(self.values(), other.values()), self.ragged());
  });
}

NestedTensor matmul(const NestedTensor& self, const Tensor& other, const MatmulOptions& options) {
  return call_as("matmul", {{"self", self}}, [&]() -> NestedTensor {
    const bool rows_of_vectors =
        !options.transpose_self && other.dim() <= 2 && self.values().dim() >= 2 && self.ragged_dims() > 0;
    if (rows_of_vectors)
      return NestedTensor::of_op(matmul(self.values(), options.transpose_other ? t(other) : other), self.ragged());
    if (!regular_matrices(self))
      return product(matrices_of(self, options.transpose_self), matrices_of(other, self.components(), options.transpose_other));
    require_no_transpose(self, options);
    return NestedTensor::of_op(matmul(self.values(), launch::written_out(nested::broadcast_to(other, self))), self.ragged());
  });
}

NestedTensor matmul(const Tensor& self, const NestedTensor& other, const MatmulOptions& options) {
  return call_as("matmul", {{"other", other}}, [&]() -> NestedTensor {
    if (!regular_matrices(other))
      return product(matrices_of(self, other.components(), options.transpose_self), matrices_of(other, options.transpose_other));
    require_no_transpose(other, options);
    return NestedTensor::of_op(matmul(launch::written_out(nested::broadcast_to(self, other)), other.values()), other.ragged());
  });
}

}  // namespace deckle
