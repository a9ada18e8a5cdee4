#include "deckle/ops/launch.h"

#include <algorithm>

#include "deckle/autograd/forward_mode.h"
#include "deckle/autograd/node.h"
#include "deckle/base/check.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/dispatch/view.h"
#include "deckle/ops/copy.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/ops/promotion.h"

namespace deckle::launch {
namespace {

Dims broadcast_of(TensorList inputs) {
  Dims sizes(inputs[0].sizes());
  for (const Tensor& input : inputs.subspan(1)) {
    if (input.sizes() == sizes) continue;
    sizes = broadcast_shapes(sizes, input.sizes());
  }
  return sizes;
}

bool is_condition(const Pointwise& op, size_t input) { return (op.conditions >> input & 1) != 0; }

/// The operands without the conditions.
std::vector<Tensor> values_of(const Pointwise& op, TensorList inputs) {
  std::vector<Tensor> values;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!is_condition(op, i)) values.push_back(inputs[i]);
  }
  return values;
}

/// The dtype that an op on these operands works in.
DType working_dtype(const Pointwise& op, TensorList inputs, std::initializer_list<Scalar> numbers) {
  bool same = numbers.size() == 0 && op.conditions == 0;
  for (const Tensor& input : inputs) same = same && input.dtype() == inputs[0].dtype();
  const DType dtype = same                 ? inputs[0].dtype()
                      : op.conditions == 0 ? result_type(inputs, numbers)
                                           : result_type(values_of(op, inputs), numbers);
  if (is_floating(dtype)) return dtype;
  if (op.dtypes == Dtypes::floating) return DType::float32;
  if (dtype == DType::bool_ && op.dtypes == Dtypes::numeric)
    fail("the operands are bool, which has no arithmetic (expected a numeric dtype)");
  return dtype;
}

DType compute_dtype(DType working) {
  if (!is_floating(working)) return DType::int64;
  return working == DType::float64 ? DType::float64 : DType::float32;
}

void run(const Pointwise& op, DType working, TensorList inputs, std::initializer_list<Scalar> numbers, const Tensor& out) {
  std::vector<Number> values;
  values.reserve(numbers.size());
  const DType compute = compute_dtype(working);
  for (const Scalar& number : numbers) values.push_back({number.to_double(), compute == DType::int64 ? number.to_int64() : 0});
  std::vector<View> views;
  views.reserve(inputs.size());
  const auto add_view = [&](const Tensor& input) {
    views.push_back(out.is_contiguous() ? dispatch::view_through_table(input) : dispatch::view(input));
  };
  std::vector<Tensor> converted;  // alive until the kernel has run
  for (size_t i = 0; i < inputs.size(); ++i) {
    // Kernels read inputs in the dtype that they compute in: there a tiny condition could become zero.
    if (is_condition(op, i) && inputs[i].dtype() != DType::bool_ && inputs[i].dtype() != compute) {
      converted.push_back(native::copied(inputs[i], DType::bool_));
      add_view(converted.back());
    } else {
      add_view(inputs[i]);
    }
  }
  op.kernels.on(dispatch::common_device(inputs))(CpuContext{}, compute, views, values, dispatch::view(out));
}

void require_defined(TensorList inputs) {
  for (const Tensor& input : inputs) check(input.defined(), "an operand is undefined (expected a tensor)");
}

}  // namespace

Tensor pointwise(const Pointwise& op, std::initializer_list<Tensor> inputs, std::initializer_list<Scalar> numbers) {
  const TensorList operands(inputs);
  require_defined(operands);
  const DType working = working_dtype(op, operands, numbers);
  const Tensor result = empty(broadcast_of(operands), op.result.value_or(working), dispatch::common_device(operands));
  run(op, working, operands, numbers, result);
  return result;
}

void pointwise_out(const Pointwise& op, const Tensor& out, std::initializer_list<Tensor> inputs,
                   std::initializer_list<Scalar> numbers) {
  std::vector<Tensor> operands(inputs);
  require_defined(operands);
  const DType working = working_dtype(op, operands, numbers), result = op.result.value_or(working);
  const Dims sizes = broadcast_of(operands);
  check(out.sizes() == sizes, "the tensor to write into has shape {} (expected {}, that of the result)", out.sizes(), sizes);
  check(category(out.dtype()) >= category(result),
        "the result is {} and cannot be written into {} (expected a dtype that holds it)", name(result), name(out.dtype()));
  native::check_writable(out);
  // The kernel may find an input in the very place of the output, but not shifted against it.
  for (Tensor& operand : operands) {
    if (operand.storage() == out.storage() && !native::same_elements(operand, out)) operand = native::clone(operand);
  }
  run(op, working, operands, numbers, out);
}

int64_t wrap_dim(int64_t dim, int64_t rank) {
  const int64_t range = std::max<int64_t>(rank, 1);
  check(dim >= -range && dim < range, Argument{"dim"}, "{} is out of range (expected {}..{})", dim, -range, range - 1);
  return dim < 0 ? dim + range : dim;
}

Dims wrap_dims(Ints dims, Ints sizes) {
  Dims wrapped;
  for (const int64_t dim : dims) {
    wrapped.push_back(launch::wrap_dim(dim, sizes));
    for (size_t i = 0; i + 1 < wrapped.size(); ++i)
      check(wrapped[i] != wrapped.back(), "dim {} is given twice in {} (expected different dims)", dim, dims);
  }
  return wrapped;
}

Dims wrap_dims(Ints dims, int64_t rank) {
  const Dims sizes(static_cast<size_t>(rank), 1);
  return wrap_dims(dims, Ints(sizes));
}

Tensor contiguous(const Tensor& tensor) { return tensor.defined() ? native::contiguous(tensor) : tensor; }

std::vector<Tensor> contiguous(TensorList tensors) {
  std::vector<Tensor> result;
  result.reserve(tensors.size());
  for (const Tensor& tensor : tensors) result.push_back(launch::contiguous(tensor));
  return result;
}

std::optional<double> to_double(const std::optional<Scalar>& scalar) {
  return scalar ? std::optional(scalar->to_double()) : std::nullopt;
}

void require_floating(const Tensor& tensor, std::string_view argument) {
  if (!tensor.defined()) return;
  check(is_floating(tensor.dtype()), Argument{argument}, "is {} (expected a floating dtype)", name(tensor.dtype()));
}

void require_floating(TensorList tensors, std::string_view argument) {
  for (const Tensor& tensor : tensors) require_floating(tensor, argument);
}

bool has_tangent(TensorList tensors, autograd::Level level) {
  return std::any_of(tensors.begin(), tensors.end(), [&](const Tensor& tensor) { return autograd::has_tangent(tensor, level); });
}

void require_length(size_t length, size_t expected, std::string_view argument) {
  check(length == expected, Argument{argument}, "has {} elements (expected {})", length, expected);
}

PhiloxStream reserve(Generator* generator, const Tensor& result) {
  const int64_t words = result.dtype() == DType::float64 ? 2 : 1;
  return (generator ? *generator : default_generator()).reserve(words * result.numel());
}

Tensor plus(const Tensor& a, const Tensor& b) {
  if (!a.defined()) return b;
  return b.defined() ? add(a, b) : a;
}

Tensor broadcast_tangent(const Tensor& tangent, const Tensor& result) {
  if (!tangent.defined()) return tangent;
  Tensor shaped = tangent.sizes() == result.sizes() ? tangent : clone(expand(tangent, result.sizes()));
  return shaped.dtype() == result.dtype() ? shaped : shaped.to(result.dtype());
}

std::vector<Tensor> all_gradients(const autograd::Gradients& grads) {
  std::vector<Tensor> result;
  for (size_t i = 0; i < grads.size(); ++i) result.push_back(grads[i]);
  return result;
}

}  // namespace deckle::launch
