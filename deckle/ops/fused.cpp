// Ops of which a GPU computes several in one pass. Where there is no such kernel (on CPUs, and for operands that it does not
// take) they run one after another.
#include <tuple>
#include <type_traits>

#include "deckle/base/check.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/dispatch/kernel_row.h"
#include "deckle/dispatch/view.h"
#include "deckle/ops/copy.h"
#include "deckle/ops/generated/fused.h"
#include "deckle/ops/generated/norm.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"

namespace deckle::kernels::cuda {
// False: there is no such kernel, and nothing was computed.
bool add_layer_norm(const Context&, const View& self, const View& other, const View& other_bias, const View& weight,
                    const View& bias, double eps, const View& result, const View& sum);
bool add_layer_norm_backward(const Context&, const View& gradient, const View& carried, const View& sum, const View& weight,
                             double eps, const View& sum_gradient, const View& other_bias_gradient, const View& weight_gradient,
                             const View& bias_gradient);
bool bias_gelu(const Context&, const View& self, const View& bias, const View& result);
bool bias_gelu_backward(const Context&, const View& gradient, const View& self, const View& bias, const View& self_gradient,
                        const View& bias_gradient);
}  // namespace deckle::kernels::cuda

namespace deckle::native {
namespace {

/// Calls a kernel of GPUs with views of the tensors, if they lie on one and there is such a kernel.
template <typename Kernel, typename... Operands>
bool in_one_pass([[maybe_unused]] Kernel kernel, [[maybe_unused]] const Tensor& first, [[maybe_unused]] const Operands&... rest) {
  if constexpr (std::is_null_pointer_v<Kernel>) {
    return false;  // a build without CUDA
  } else {
    const auto operand = []<typename T>(const T& x) {
      if constexpr (std::is_same_v<T, Tensor>)
        return dispatch::view(x);
      else
        return x;
    };
    return first.device().is_cuda() && !cuda::fake() && kernel(Context{first.device()}, operand(first), operand(rest)...);
  }
}

Tensor sum_over_rows(const Tensor& x) {
  Dims dims;
  for (int64_t dim = 0; dim + 1 < x.dim(); ++dim) dims.push_back(dim);
  return dims.empty() ? x : raw::sum(x, IntSpan(dims), false);
}

void check_row(const Tensor& row, const char* name, const Tensor& self) {
  check(self.dim() >= 1 && row.dim() == 1 && row.size(0) == self.size(-1), Argument{name},
        "has shape {} (expected [{}], the last dim of self {})", row.sizes(), self.dim() == 0 ? 1 : self.size(-1), self.sizes());
}

}  // namespace

std::tuple<Tensor, Tensor> add_layer_norm(const Tensor& self, const Tensor& other, const Tensor& other_bias, const Tensor& weight,
                                          const Tensor& bias, double eps) {
  dispatch::common_device({self, other, other_bias, weight, bias});
  check(self.dim() >= 1 && self.sizes() == other.sizes() && self.dtype() == other.dtype() && is_floating(self.dtype()),
        "self is {} {}, other {} {} (expected one floating dtype and shape, with a last dim to normalise)", self.dtype(),
        self.sizes(), other.dtype(), other.sizes());
  check(eps >= 0, Argument{"eps"}, "is {} (expected 0 or more)", eps);
  if (other_bias.defined()) {
    check_row(other_bias, "other_bias", self);
    check(other_bias.dtype() == self.dtype(), Argument{"other_bias"}, "is {} (expected {}, as self)", other_bias.dtype(),
          self.dtype());
  }
  if (weight.defined()) check_row(weight, "weight", self);
  if (bias.defined()) check_row(bias, "bias", self);
  const Tensor x = native::contiguous(self), z = native::contiguous(other);
  const Tensor b = other_bias.defined() ? native::contiguous(other_bias) : Tensor();
  const Tensor w = weight.defined() ? native::contiguous(weight) : Tensor(),
               c = bias.defined() ? native::contiguous(bias) : Tensor();
  Tensor result = empty(x.sizes(), x.dtype(), x.device()), sum = empty(x.sizes(), x.dtype(), x.device());
  if (in_one_pass(DECKLE_CUDA_KERNEL(add_layer_norm), x, z, b, w, c, eps, result, sum)) return {result, sum};
  sum = raw::add(x, z);
  if (b.defined()) sum = raw::add(sum, b);
  return {raw::layer_norm(sum, w, c, eps), sum};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> add_layer_norm_backward(const Tensor& gradient, const Tensor& carried,
                                                                   const Tensor& sum, const Tensor& weight, double eps) {
  dispatch::common_device({gradient, carried, sum, weight});
  const Tensor g = native::contiguous(gradient), c = native::contiguous(carried), x = native::contiguous(sum);
  const Tensor w = weight.defined() ? native::contiguous(weight) : Tensor();
  const DType of_parameters = w.defined() ? w.dtype() : x.dtype();
  const auto row = [&](DType dtype) { return empty({x.size(-1)}, dtype, x.device()); };
  const Tensor of_sum = empty(x.sizes(), x.dtype(), x.device()), of_other = row(x.dtype()), of_weight = row(of_parameters),
               of_bias = row(of_parameters);
  if (in_one_pass(DECKLE_CUDA_KERNEL(add_layer_norm_backward), g, c, x, w, eps, of_sum, of_other, of_weight, of_bias))
    return {of_sum, of_other, of_weight, of_bias};
  const auto [of_norm, weight_gradient, bias_gradient] = raw::layer_norm_backward(g, x, w, eps);
  const Tensor both = raw::add(of_norm, c);
  return {both, sum_over_rows(both), native::convert(weight_gradient, of_parameters),
          native::convert(bias_gradient, of_parameters)};
}

Tensor bias_gelu(const Tensor& self, const Tensor& bias) {
  dispatch::common_device({self, bias});
  check_row(bias, "bias", self);
  check(self.dtype() == bias.dtype() && is_floating(self.dtype()), "self is {}, bias is {} (expected one floating dtype)",
        self.dtype(), bias.dtype());
  const Tensor x = native::contiguous(self), b = native::contiguous(bias), result = empty(x.sizes(), x.dtype(), x.device());
  if (in_one_pass(DECKLE_CUDA_KERNEL(bias_gelu), x, b, result)) return result;
  return raw::gelu(raw::add(x, b));
}

std::tuple<Tensor, Tensor> bias_gelu_backward(const Tensor& gradient, const Tensor& self, const Tensor& bias) {
  dispatch::common_device({gradient, self, bias});
  const Tensor g = native::contiguous(gradient), x = native::contiguous(self), b = native::contiguous(bias);
  const Tensor of_self = empty(x.sizes(), x.dtype(), x.device()), of_bias = empty({x.size(-1)}, x.dtype(), x.device());
  if (in_one_pass(DECKLE_CUDA_KERNEL(bias_gelu_backward), g, x, b, of_self, of_bias)) return {of_self, of_bias};
  const Tensor both = raw::gelu_backward(g, raw::add(x, b));
  return {both, sum_over_rows(both)};
}

}  // namespace deckle::native
