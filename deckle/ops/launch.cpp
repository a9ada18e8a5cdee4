#include "deckle/ops/launch.h"

#include <algorithm>
#include <new>

#include "deckle/autograd/forward_mode.h"
#include "deckle/autograd/node.h"
#include "deckle/base/check.h"
#include "deckle/base/scratch.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/dispatch/view.h"
#include "deckle/ops/copy.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/segment.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/ops/promotion.h"
#include "deckle/ops/shapes.h"

namespace deckle::launch {
namespace {

using Operands = std::span<const RowOperand>;

Dims broadcast_of(Operands inputs) {
  Dims sizes = inputs[0].sizes();
  for (const RowOperand& input : inputs.subspan(1)) {
    if (!input.repeats() && input.values().sizes() == sizes) continue;
    sizes = broadcast_shapes(sizes, input.sizes());
  }
  return sizes;
}

bool is_condition(const Pointwise& op, size_t input) { return (op.conditions >> input & 1) != 0; }

/// Whether numbers are put in among the elements of the first operand, as masked_fill does; where() makes a tensor of both.
bool fills(const Pointwise& op, Operands inputs) { return op.conditions != 0 && op.conditions + 2 == 1U << inputs.size(); }

/// The operands without the conditions.
std::vector<Tensor> values_of(const Pointwise& op, Operands inputs) {
  std::vector<Tensor> values;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!is_condition(op, i)) values.push_back(inputs[i].values());
  }
  return values;
}

/// The dtype that an op on these operands works in.
DType working_dtype(const Pointwise& op, Operands inputs, std::initializer_list<Scalar> numbers) {
  // A number never decides beside floating tensors.
  bool same = (numbers.size() == 0 || is_floating(inputs[0].dtype())) && op.conditions == 0;
  for (const RowOperand& input : inputs) same = same && input.dtype() == inputs[0].dtype();
  // Integers are held by the dtype that they fill, as by fill_; what it cannot hold, a fraction among integers, widens it.
  same = same ||
         (fills(op, inputs) && std::none_of(numbers.begin(), numbers.end(), [](const Scalar& x) { return x.is_floating(); }));
  const DType dtype = same ? inputs[0].dtype() : result_type(values_of(op, inputs), numbers);
  if (is_floating(dtype)) {
    check(op.dtypes != Dtypes::integral, "the operands are {} (expected integers or bool)", name(dtype));
    return dtype;
  }
  if (op.dtypes == Dtypes::floating) return DType::float32;
  if (dtype == DType::bool_ && op.dtypes == Dtypes::numeric)
    fail("the operands are bool, which has no arithmetic (expected a numeric dtype)");
  return dtype;
}

bool repeats_elements(const Tensor& tensor) {
  for (size_t dim = 0; dim < tensor.sizes().size(); ++dim) {
    if (tensor.strides()[dim] == 0 && tensor.sizes()[dim] > 1) return true;
  }
  return false;
}

/// Memory for a result. Where all operands of its sizes are permuted in one way, so is it, and the op runs straight over memory;
/// else it is row-major, as it always is on a GPU.
Tensor result_of(Operands inputs, IntSpan sizes, DType dtype, Device device) {
  const Tensor* like = nullptr;
  for (const RowOperand& input : inputs) {
    const Tensor& tensor = input.values();
    if (!device.is_cpu() || sizes.size() < 2 || input.repeats()) return empty_raw(sizes, dtype, device);
    if (!(tensor.sizes() == sizes) || repeats_elements(tensor)) continue;
    if (like == nullptr ? !native::is_permuted(tensor) : !(tensor.strides() == like->strides()))
      return empty_raw(sizes, dtype, device);
    like = &tensor;
  }
  return like == nullptr ? empty_raw(sizes, dtype, device) : native::empty_permuted(*like, dtype);
}

DType compute_dtype(DType working) {
  if (!is_floating(working)) return DType::int64;
  return working == DType::float64 ? DType::float64 : DType::float32;
}

Device device_of(Operands inputs) {
  for (const RowOperand& input : inputs.subspan(1)) {
    if (!(input.device() == inputs[0].device())) return dispatch::common_device({inputs[0].values(), input.values()});
  }
  return inputs[0].device();
}

/// Whether a kernel that writes `out` can read the rows where they are: they are the rows of `out`, and its outermost dim. The
/// table lies in the host's memory.
bool reads_through_table(const RowOperand& input, const Tensor& out) {
  return input.repeats() && out.device().is_cpu() && out.is_contiguous() && input.values().dim() == out.dim() && out.dim() > 1 &&
         out.size(0) > 1 && out.size(0) == input.repeated_by()->rows() && out.numel() > out.size(0);
}

Tensor repeated_below(const RowOperand& input) {
  return input.repeats() ? raw::segment_broadcast(input.values(), input.repeated_by()) : input.values();
}

void run(const Pointwise& op, DType working, Device device, Operands inputs, std::initializer_list<Scalar> numbers,
         const Tensor& out) {
  if (op.of_integers && !is_floating(inputs[0].dtype())) return native::fill(out, *op.of_integers);
  Scratch scratch;  // of this thread: on a few elements every allocation shows
  const std::span<Number> values(scratch.take<Number>(static_cast<int64_t>(numbers.size())), numbers.size());
  const DType compute = compute_dtype(working);
  // A result of the operands' dtype holds numbers as they do; comparisons, of another dtype, take any. uint8 is arithmetic modulo
  // 256, where subtracting 1 may be adding -1; what is filled in is held to it.
  const DType of_numbers = op.result || (working == DType::uint8 && !fills(op, inputs)) ? DType::int64 : working;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const Scalar& number = numbers.begin()[i];
    values[i] = {number.to_double(), compute == DType::int64 ? integer_of(number, of_numbers) : 0};
    if (working == DType::bool_ && fills(op, inputs)) values[i].integer = !number.is_zero();
  }
  const std::span<View> views(scratch.take<View>(static_cast<int64_t>(inputs.size())), inputs.size());
  std::vector<Tensor> made;  // alive until the kernel has run
  const auto keep = [&](Tensor tensor) -> const Tensor& { return made.emplace_back(std::move(tensor)); };
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool through_table = reads_through_table(inputs[i], out);
    const Tensor* tensor = &inputs[i].values();
    if (inputs[i].repeats() && !through_table) tensor = &keep(repeated_below(inputs[i]));
    // Kernels read inputs in the dtype that they compute in: there a tiny condition could become zero.
    if (is_condition(op, i) && tensor->dtype() != DType::bool_ && tensor->dtype() != compute)
      tensor = &keep(native::copy_as(*tensor, DType::bool_));
    ::new (&views[i]) View(dispatch::view(*tensor));  // in its place: 224 bytes take as long to copy as to make
    if (through_table) dispatch::repeat_rows(views[i], inputs[i].repeated_by());
  }
  op.kernels.on(device)(Context{device}, compute, views, values, dispatch::view(out));
}

void require_defined(Operands inputs) {
  for (const RowOperand& input : inputs) check(input.values().defined(), "an operand is undefined (expected a tensor)");
}

}  // namespace

Tensor pointwise(const Pointwise& op, std::initializer_list<RowOperand> inputs, std::initializer_list<Scalar> numbers) {
  const Operands operands(inputs.begin(), inputs.size());
  require_defined(operands);
  const DType working = working_dtype(op, operands, numbers);
  const Device device = device_of(operands);
  const Tensor result = result_of(operands, broadcast_of(operands), op.result.value_or(working), device);
  run(op, working, device, operands, numbers, result);
  return result;
}

void pointwise_out(const Pointwise& op, const Tensor& out, std::initializer_list<RowOperand> inputs,
                   std::initializer_list<Scalar> numbers) {
  const Operands operands(inputs.begin(), inputs.size());
  require_defined(operands);
  const Device device = device_of(operands);
  if (!(out.device() == device)) dispatch::common_device({out, operands[0].values()});
  const DType working = working_dtype(op, operands, numbers), result = op.result.value_or(working);
  const Dims sizes = broadcast_of(operands);
  check(out.sizes() == sizes, "the tensor to write into has shape {} (expected {}, that of the result)", out.sizes(), sizes);
  check(category(out.dtype()) >= category(result),
        "the result is {} and cannot be written into {} (expected a dtype that holds it)", name(result), name(out.dtype()));
  native::check_writable(out);
  // The kernel may find an input in the very place of the output, but not shifted against it.
  std::vector<Tensor> apart;
  apart.reserve(operands.size());
  for (const RowOperand& operand : operands) {
    const bool shifted = operand.values().storage() == out.storage() && !native::same_elements(operand.values(), out);
    apart.push_back(operand.repeats() ? repeated_below(operand) : shifted ? native::clone(operand.values()) : operand.values());
  }
  const std::vector<RowOperand> moved(apart.begin(), apart.end());
  run(op, working, device, moved, numbers, out);
}

RepeatedRows repeat_by(const Tensor& rows, const Ragged& ragged) {
  constexpr int64_t kShortRow = 64;  // bytes
  const Dims sizes = shapes::packed_shape(rows, ragged);
  const int64_t row = numel_of(IntSpan(sizes).subspan(1)) * item_size(rows.dtype());
  return row < kShortRow || sizes[0] <= 1 ? RepeatedRows(segment_broadcast(rows, ragged)) : RepeatedRows(rows, ragged);
}

Tensor written_out(const RowOperand& operand) {
  return operand.repeats() ? segment_broadcast(operand.values(), operand.repeated_by()) : operand.values();
}

int64_t wrap_dim(int64_t dim, int64_t rank) {
  const int64_t range = std::max<int64_t>(rank, 1);
  check(dim >= -range && dim < range, Argument{"dim"}, "{} is out of range (expected {}..{})", dim, -range, range - 1);
  return dim < 0 ? dim + range : dim;
}

namespace {

/// `range`: the sizes, or the number of dims.
template <typename Range>
Dims wrap_distinct(IntSpan dims, const Range& range) {
  Dims wrapped;
  for (const int64_t dim : dims) {
    wrapped.push_back(launch::wrap_dim(dim, range));
    for (size_t i = 0; i + 1 < wrapped.size(); ++i)
      check(wrapped[i] != wrapped.back(), "dim {} is given twice in {} (expected different dims)", dim, dims);
  }
  return wrapped;
}

}  // namespace

Dims wrap_dims(IntSpan dims, IntSpan sizes) { return wrap_distinct(dims, sizes); }
Dims wrap_dims(IntSpan dims, int64_t rank) { return wrap_distinct(dims, rank); }

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

void require_numeric(const Tensor& tensor, std::string_view argument) {
  if (!tensor.defined()) return;
  check(tensor.dtype() != DType::bool_, Argument{argument}, "is bool, which has no arithmetic (expected a numeric dtype)");
}

void require_integral(const Tensor& tensor, std::string_view argument) {
  if (!tensor.defined()) return;
  check(!is_floating(tensor.dtype()), Argument{argument}, "is {} (expected integers or bool)", name(tensor.dtype()));
}

namespace {

void require_each(TensorList tensors, std::string_view argument, void (*require)(const Tensor&, std::string_view)) {
  for (const Tensor& tensor : tensors) {
    check(tensor.defined(), Argument{argument}, "has an undefined tensor (expected defined ones)");
    require(tensor, argument);
  }
}

}  // namespace

void require_floating(TensorList tensors, std::string_view argument) { require_each(tensors, argument, require_floating); }
void require_numeric(TensorList tensors, std::string_view argument) { require_each(tensors, argument, require_numeric); }
void require_integral(TensorList tensors, std::string_view argument) { require_each(tensors, argument, require_integral); }

bool has_tangent(TensorList tensors, autograd::Level level) {
  return std::any_of(tensors.begin(), tensors.end(), [&](const Tensor& tensor) { return autograd::has_tangent(tensor, level); });
}

void require_length(size_t length, size_t expected, std::string_view argument) {
  check(length == expected, Argument{argument}, "has {} elements (expected {})", length, expected);
}

void refuse_enum(int64_t value, std::span<const std::string_view> names, std::string_view argument) {
  std::string expected(names[0]);
  for (size_t i = 1; i < names.size(); ++i) expected += (i + 1 < names.size() ? ", " : " or ") + std::string(names[i]);
  fail(Argument{argument}, "is {} (expected {})", value, expected);
}

PhiloxStream reserve(Generator* generator, const Tensor& result) {
  const int64_t words = result.dtype() == DType::float64 ? 2 : 1;
  return (generator ? *generator : default_generator()).reserve(words * result.numel(), result.device());
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

Tensor plus(const Tensor& a, const RepeatedRows& b) { return a.defined() ? detail::add(a, b) : written_out(b); }

std::vector<Tensor> all_gradients(const autograd::Gradients& grads) {
  std::vector<Tensor> result;
  for (size_t i = 0; i < grads.size(); ++i) result.push_back(grads[i]);
  return result;
}

}  // namespace deckle::launch

namespace deckle {

Tensor sum_to(const Tensor& gradient, const OperandSizes& operand) {
  if (!operand.ragged.defined()) return sum_to(gradient, IntSpan(operand.sizes));
  if (gradient.dim() == static_cast<int64_t>(operand.sizes.size()))
    return sum_to(segment_sum(gradient, operand.ragged), IntSpan(operand.sizes));
  Dims rows = operand.sizes;  // more dims: those before the rows go first
  rows[0] = operand.ragged->rows();
  return sum_to(segment_sum(sum_to(gradient, IntSpan(rows)), operand.ragged), IntSpan(operand.sizes));
}

}  // namespace deckle
