// Copies and conversions.

#include <memory>

#include "deckle/autograd/support.h"
#include "deckle/base/check.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/ops/copy.h"
#include "deckle/ops/generated/shape.h"

namespace deckle {

namespace native {

Tensor clone(const Tensor& self) { return copy_as(self, self.dtype()); }

Tensor convert(const Tensor& self, DType dtype) {
  if (!self.device().is_cpu() || !is_permuted(self)) return copy_as(self, dtype);
  const Tensor result = empty_permuted(self, dtype);
  copy_into(result, self);
  return result;
}

void copy_(const Tensor& self, const Tensor& source) {
  check_writable(self);
  copy_into(self, source);
}

}  // namespace native

namespace {

struct ToDeviceBackward final : autograd::Node {
  Device from;

  std::string_view name() const override { return "to"; }
  void backward(const autograd::Gradients& grads, autograd::GradientSink& sink) override {
    if (sink.wants(0)) sink.put(0, grads[0].to(from));
  }
};

}  // namespace

Tensor Tensor::to(Device device) && {
  const Tensor from = std::move(*this);
  return from.to(device);
}
Tensor Tensor::to(Device device) const& try {
  if (this->device() == device) return *this;
  Tensor result = native::move_to(*this, device);
  if (!autograd::active(*this)) return result;
  if (autograd::records(*this)) {
    auto node = std::make_shared<ToDeviceBackward>();
    node->connect(*this);
    node->from = this->device();
    autograd::attach(result, node);
  }
  for (const autograd::Level level : autograd::tangent_levels(*this))
    autograd::set_tangent(result, level, autograd::tangent(*this, level).to(device));
  return result;
} catch (...) {
  rethrow_from("to");
}

Tensor composite::detach(const Tensor& self) { return self.detach(); }

}  // namespace deckle
