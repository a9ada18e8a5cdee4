// The ops that are matrix products: mm, bmm, linear and the gradient of its weight.
#include "deckle/base/error.h"
#include "deckle/core/cuda/memory.h"
#include "deckle/kernels/cuda/matmul/product.h"
#include "deckle/kernels/cuda/pointwise/copy.h"

namespace deckle::kernels::cuda {
namespace {

using matmul::Matrices;

/// The last two dims of a view, its batch dims left out.
Matrices matrix_of(const View& view) {
  const int last = view.ndim - 1;
  return {view.data, view.sizes[last - 1], view.sizes[last], view.strides[last - 1], view.strides[last], 0};
}

/// A contiguous view as one matrix: all dims but the last are its rows.
Matrices rows_of(const View& view) {
  const int64_t columns = view.sizes[view.ndim - 1];
  return {view.data, columns == 0 ? 0 : view.numel() / columns, columns, columns, 1, 0};
}

/// Columns of `result` start as the bias, or as 0: what is left where the inner dim is empty, and of float64 with a bias.
void start_with(const Context& context, const View& bias, const View& result) {
  if (bias.data == nullptr) return fill(context, Number{0, 0}, result);
  View spread = result;
  spread.data = bias.data;
  spread.dtype = bias.dtype;
  for (int dim = 0; dim < result.ndim; ++dim) spread.strides[dim] = dim + 1 == result.ndim ? bias.strides[0] : 0;
  copy(context, spread, result);
}

void same_dtype(const View& a, const View& b) {
  if (a.dtype != b.dtype)
    throw Error("the operands are " + to_string(a.dtype) + " and " + to_string(b.dtype) + " (expected one dtype)");
}

char* advance(const void* data, int64_t elements, DType dtype) {
  return static_cast<char*>(const_cast<void*>(data)) + elements * item_size(dtype);
}

}  // namespace

void mm(const Context& context, const View& self, const View& mat2, const View& result) {
  same_dtype(self, mat2);
  if (self.sizes[1] == 0) return start_with(context, {}, result);
  if (is_integral(self.dtype))
    return matmul::integer_product(context, self.dtype, matrix_of(self), matrix_of(mat2), matrix_of(result));
  matmul::product(context, self.dtype, matrix_of(self), matrix_of(mat2), matrix_of(result), 1);
}

void bmm(const Context& context, const View& self, const View& mat2, const View& result) {
  same_dtype(self, mat2);
  if (result.numel() == 0) return;
  if (self.sizes[self.ndim - 1] == 0) return start_with(context, {}, result);
  // The batch dims, merged from the innermost on while all operands allow; each index of what remains is a call of its own.
  int dim = result.ndim - 3;
  Matrices a = matrix_of(self), b = matrix_of(mat2), c = matrix_of(result);
  int64_t batch = result.sizes[dim];
  a.batch = self.strides[dim];
  b.batch = mat2.strides[dim];
  c.batch = result.strides[dim];
  for (; dim > 0; --dim) {
    const auto merges = [&](const View& view, int64_t stride) {
      return view.sizes[dim - 1] == 1 || view.strides[dim - 1] == stride * batch;
    };
    if (!merges(self, a.batch) || !merges(mat2, b.batch) || !merges(result, c.batch)) break;
    batch *= result.sizes[dim - 1];
  }
  int64_t outer = 1;
  for (int d = 0; d < dim; ++d) outer *= result.sizes[d];
  for (int64_t index = 0; index < outer; ++index) {
    Matrices at[] = {a, b, c};
    const View* const views[] = {&self, &mat2, &result};
    for (int i = 0; i < 3; ++i) {
      int64_t rest = index, offset = 0;
      for (int d = dim - 1; d >= 0; --d) {
        offset += rest % result.sizes[d] * views[i]->strides[d];
        rest /= result.sizes[d];
      }
      at[i].data = advance(at[i].data, offset, views[i]->dtype);
    }
    matmul::product(context, self.dtype, at[0], at[1], at[2], batch);
  }
}

void linear(const Context& context, const View& input, const View& weight, const View& bias, const View& result) {
  same_dtype(input, weight);
  if (result.numel() == 0) return;
  if (input.sizes[input.ndim - 1] == 0) return start_with(context, bias, result);
  const Matrices transposed = matrix_of(weight).transpose();
  if (bias.data == nullptr) return matmul::product(context, input.dtype, rows_of(input), transposed, rows_of(result), 1);
  if (input.dtype == DType::float64) {
    start_with(context, bias, result);
    return matmul::product(context, input.dtype, rows_of(input), transposed, rows_of(result), 1, nullptr, true);
  }
  // cuBLASLt adds a contiguous bias of these dtypes on the way, and reads 16 bytes of it at a time.
  const int64_t width = result.sizes[result.ndim - 1];
  const bool as_it_is = (bias.strides[0] == 1 || width == 1) && reinterpret_cast<uintptr_t>(bias.data) % 16 == 0;
  const deckle::cuda::Block memory(as_it_is ? 0 : width * item_size(bias.dtype), context.device);
  const void* at = bias.data;
  if (memory.as<void>() != nullptr) {
    View contiguous = bias;
    contiguous.data = memory.as<void>();
    contiguous.strides[0] = 1;
    copy(context, bias, contiguous);
    at = memory.as<void>();
  }
  matmul::product(context, input.dtype, rows_of(input), transposed, rows_of(result), 1, at);
}

void linear_weight_backward(const Context& context, const View& gradient, const View& input, const View& result) {
  same_dtype(gradient, input);
  if (result.numel() == 0) return;
  const Matrices rows = rows_of(gradient);
  if (rows.rows == 0) return start_with(context, {}, result);
  matmul::product(context, input.dtype, rows.transpose(), rows_of(input), rows_of(result), 1);
}

}  // namespace deckle::kernels::cuda
