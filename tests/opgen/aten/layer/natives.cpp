// The values of the ops of layer.yaml, below autograd: Deckle's own ops, or the C++ library element by element where Deckle has
// none.
#include <cmath>

#include "deckle/base/check.h"
#include "deckle/core/from_data.h"
#include "deckle/ops/generated/aten_layer.h"
#include "deckle/ops/generated/matmul.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"

namespace deckle::native {
namespace {

template <typename Function>
Tensor each(const Tensor& self, const Function& function) {
  std::vector<double> values = self.to_vector();
  for (double& value : values) value = function(value);
  return native::view(native::convert(tensor(values), self.dtype()), self.sizes());
}

template <typename Function>
Tensor each(const Tensor& self, const Tensor& other, const Function& function) {
  check(self.sizes() == other.sizes(), "shapes {} and {} differ (expected one shape)", self.sizes(), other.sizes());
  const std::vector<double> others = other.to_vector();
  std::vector<double> values = self.to_vector();
  for (size_t i = 0; i < values.size(); ++i) values[i] = function(values[i], others[i]);
  return native::view(native::convert(tensor(values), self.dtype()), self.sizes());
}

}  // namespace

Tensor aten_exp(const Tensor& self) { return raw::exp(self); }
Tensor aten_exp2(const Tensor& self) { return raw::exp2(self); }
Tensor aten_expm1(const Tensor& self) { return raw::expm1(self); }
Tensor aten_log(const Tensor& self) { return raw::log(self); }
Tensor aten_log2(const Tensor& self) { return raw::log2(self); }
Tensor aten_log10(const Tensor& self) { return raw::log10(self); }
Tensor aten_log1p(const Tensor& self) { return raw::log1p(self); }
Tensor aten_sin(const Tensor& self) { return raw::sin(self); }
Tensor aten_cos(const Tensor& self) { return raw::cos(self); }
Tensor aten_tanh(const Tensor& self) { return raw::tanh(self); }
Tensor aten_sqrt(const Tensor& self) { return raw::sqrt(self); }
Tensor aten_rsqrt(const Tensor& self) { return raw::rsqrt(self); }
Tensor aten_reciprocal(const Tensor& self) { return raw::reciprocal(self); }
Tensor aten_neg(const Tensor& self) { return raw::neg(self); }
Tensor aten_abs(const Tensor& self) { return raw::abs(self); }
Tensor aten_sigmoid(const Tensor& self) { return raw::sigmoid(self); }

Tensor aten_tan(const Tensor& self) {
  return each(self, [](double x) { return std::tan(x); });
}
Tensor aten_sinh(const Tensor& self) {
  return each(self, [](double x) { return std::sinh(x); });
}
Tensor aten_cosh(const Tensor& self) {
  return each(self, [](double x) { return std::cosh(x); });
}
Tensor aten_asin(const Tensor& self) {
  return each(self, [](double x) { return std::asin(x); });
}
Tensor aten_acos(const Tensor& self) {
  return each(self, [](double x) { return std::acos(x); });
}
Tensor aten_atan(const Tensor& self) {
  return each(self, [](double x) { return std::atan(x); });
}
Tensor aten_asinh(const Tensor& self) {
  return each(self, [](double x) { return std::asinh(x); });
}
Tensor aten_acosh(const Tensor& self) {
  return each(self, [](double x) { return std::acosh(x); });
}
Tensor aten_atanh(const Tensor& self) {
  return each(self, [](double x) { return std::atanh(x); });
}
Tensor aten_atan2(const Tensor& self, const Tensor& other) {
  return each(self, other, [](double x, double y) { return std::atan2(x, y); });
}
Tensor aten_hypot(const Tensor& self, const Tensor& other) {
  return each(self, other, [](double x, double y) { return std::hypot(x, y); });
}

Tensor aten_tanh_backward(const Tensor& grad_output, const Tensor& output) {
  return raw::mul(grad_output, raw::sub(1.0, raw::mul(output, output)));
}
Tensor aten_sigmoid_backward(const Tensor& grad_output, const Tensor& output) {
  return raw::mul(grad_output, raw::mul(output, raw::sub(1.0, output)));
}

Tensor aten_add(const Tensor& self, const Tensor& other, const Scalar& alpha) { return raw::add(self, raw::mul(other, alpha)); }
Tensor aten_sub(const Tensor& self, const Tensor& other, const Scalar& alpha) { return raw::sub(self, raw::mul(other, alpha)); }
Tensor aten_mul(const Tensor& self, const Tensor& other) { return raw::mul(self, other); }
Tensor aten_mul(const Tensor& self, const Scalar& other) { return raw::mul(self, other); }
Tensor aten_div(const Tensor& self, const Tensor& other) { return raw::div(self, other); }
Tensor aten_div(const Tensor& self, const Scalar& other) { return raw::div(self, other); }
Tensor aten_maximum(const Tensor& self, const Tensor& other) { return raw::maximum(self, other); }
Tensor aten_minimum(const Tensor& self, const Tensor& other) { return raw::minimum(self, other); }
Tensor aten_addcmul(const Tensor& self, const Tensor& tensor1, const Tensor& tensor2, const Scalar& value) {
  return raw::add(self, raw::mul(raw::mul(tensor1, tensor2), value));
}
Tensor aten_addcdiv(const Tensor& self, const Tensor& tensor1, const Tensor& tensor2, const Scalar& value) {
  return raw::add(self, raw::mul(raw::div(tensor1, tensor2), value));
}
Tensor aten_lerp(const Tensor& self, const Tensor& end, const Scalar& weight) {
  return raw::add(self, raw::mul(raw::sub(end, self), weight));
}
Tensor aten_where(const Tensor& condition, const Tensor& self, const Tensor& other) { return raw::where(condition, self, other); }
Tensor aten_pow(const Tensor& self, const Scalar& exponent) { return raw::pow(self, exponent); }

Tensor aten_mm(const Tensor& self, const Tensor& mat2) { return raw::mm(self, mat2); }
Tensor aten_bmm(const Tensor& self, const Tensor& mat2) { return raw::bmm(self, mat2); }
Tensor aten_t(const Tensor& self) { return native::clone(native::transpose(self, 0, 1)); }
Tensor aten_transpose(const Tensor& self, int64_t dim0, int64_t dim1) {
  return native::clone(native::transpose(self, dim0, dim1));
}
Tensor aten_unsqueeze(const Tensor& self, int64_t dim) { return native::clone(native::unsqueeze(self, dim)); }
Tensor aten_squeeze(const Tensor& self, int64_t dim) { return native::clone(native::squeeze(self, dim)); }

// The base sums in the dtype of its input.
Tensor aten_sum(const Tensor& self, std::optional<DType>) { return raw::sum(self); }
Tensor aten_mean(const Tensor& self, std::optional<DType>) { return raw::mean(self); }
Tensor aten_cumsum(const Tensor& self, int64_t dim, std::optional<DType>) { return raw::cumsum(self, dim); }

}  // namespace deckle::native
