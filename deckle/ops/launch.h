#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "deckle/autograd/level.h"
#include "deckle/core/factory_device.h"
#include "deckle/core/generator.h"
#include "deckle/core/rethrow.h"
#include "deckle/core/row_operand.h"
#include "deckle/core/tensor.h"
#include "deckle/dispatch/kernel_row.h"
#include "deckle/kernels/args/number.h"
#include "deckle/kernels/args/view.h"

namespace deckle::autograd {
class Gradients;
}

/// What generated code does around a kernel, once for all ops.
namespace deckle::launch {

using PointwiseKernel = void(const Context&, DType compute, std::span<const View> inputs, std::span<const Number> numbers,
                             const View& result);

/// What a pointwise op computes on: floating (integers become float32), numeric (and int64), all (and bool), integral (int64 and
/// bool).
enum class Dtypes : uint8_t { floating, numeric, all, integral };

struct Pointwise {
  dispatch::KernelRow<PointwiseKernel> kernels;
  Dtypes dtypes = Dtypes::floating;
  std::optional<DType> result = std::nullopt;  // of comparisons: bool
  uint32_t conditions = 0;  // bit i: input i only chooses between values; its dtype says nothing about the result's
  std::optional<bool> of_integers = std::nullopt;  // what a condition on one operand is wherever that is integral
};

/// Where factories make tensors; see deckle/core/factory_device.h.
using deckle::factory_device;
using deckle::OnDevice;

/// Broadcasts, promotes, allocates and computes. Rows that repeat are read where they are.
Tensor pointwise(const Pointwise& op, std::initializer_list<RowOperand> inputs, std::initializer_list<Scalar> numbers = {});

/// Into `out`, which has the broadcast shape and a dtype of the result's category. It may be one of the inputs.
void pointwise_out(const Pointwise& op, const Tensor& out, std::initializer_list<RowOperand> inputs,
                   std::initializer_list<Scalar> numbers = {});

/// Row b of [components, ...] for every row of component b, differentiable: as repeated rows for a pointwise op to read, but
/// written out where they are shorter than 64 bytes, which are read faster so.
RepeatedRows repeat_by(const Tensor& rows, const Ragged& ragged);

/// The rows written out, differentiable: for ops that read a tensor.
inline const Tensor& written_out(const Tensor& tensor) { return tensor; }
Tensor written_out(const RowOperand& operand);
inline Tensor written_out(const RepeatedRows& rows) { return written_out(RowOperand(rows)); }

/// `dim` counted from 0 for a tensor of these sizes, or of `rank` dims; throws if it is out of range.
using deckle::wrap_dim;
int64_t wrap_dim(int64_t dim, int64_t rank);
Dims wrap_dims(IntSpan dims, IntSpan sizes);
Dims wrap_dims(IntSpan dims, int64_t rank);

/// The dims, or none.
inline IntSpan dims_or_none(const std::optional<IntSpan>& dims) { return dims ? *dims : IntSpan(); }
inline IntSpan dims_or_none(const std::optional<Dims>& dims) { return dims ? IntSpan(*dims) : IntSpan(); }

/// Kept dims as an argument.
inline OptionalInts optional_dims(const std::optional<Dims>& dims) { return dims ? OptionalInts(*dims) : OptionalInts(); }

/// The tensor itself if it is undefined or contiguous, else a contiguous copy; below autograd.
Tensor contiguous(const Tensor& tensor);
std::vector<Tensor> contiguous(TensorList tensors);

std::optional<double> to_double(const std::optional<Scalar>& scalar);

/// Throws, naming the argument, if a tensor that is given is not floating.
void require_floating(const Tensor& tensor, std::string_view argument);
void require_floating(TensorList tensors, std::string_view argument);
/// The same of numbers, all but bool, and of integers and bool.
void require_numeric(const Tensor& tensor, std::string_view argument);
void require_numeric(TensorList tensors, std::string_view argument);
void require_integral(const Tensor& tensor, std::string_view argument);
void require_integral(TensorList tensors, std::string_view argument);

/// One random word per element of `result`, two of float64, from `generator` or the thread's own.
PhiloxStream reserve(Generator* generator, const Tensor& result);

/// Sum of tangents; an undefined one is zero.
Tensor plus(const Tensor& a, const Tensor& b);
Tensor plus(const Tensor& a, const RepeatedRows& b);

/// A tangent in the shape and dtype of `result`, which broadcasting and promotion may have changed.
Tensor broadcast_tangent(const Tensor& tangent, const Tensor& result);

/// Whether any of them has a tangent.
bool has_tangent(TensorList tensors, autograd::Level level);

/// Throws, naming the argument, unless a list has as many elements as its type says.
void require_length(size_t length, size_t expected, std::string_view argument);

/// Throws that an argument is none of its enum's values.
[[noreturn]] void refuse_enum(int64_t value, std::span<const std::string_view> names, std::string_view argument);

/// Throws, naming the argument, if a number was cast to an enum that has no such value.
template <typename Enum>
void require_enum(Enum value, std::string_view argument) {
  const std::span<const std::string_view> names = names_of(value);
  if (static_cast<uint64_t>(value) >= names.size()) [[unlikely]]
    refuse_enum(static_cast<int64_t>(value), names, argument);
}
template <typename Enum>
void require_enum(const std::optional<Enum>& value, std::string_view argument) {
  if (value) require_enum(*value, argument);
}

/// The gradients of all outputs of a node.
std::vector<Tensor> all_gradients(const autograd::Gradients& grads);

}  // namespace deckle::launch

namespace deckle {

/// A gradient summed to the operand that it is of: by component, if its rows repeat, and to its sizes.
Tensor sum_to(const Tensor& gradient, const OperandSizes& operand);

}  // namespace deckle
