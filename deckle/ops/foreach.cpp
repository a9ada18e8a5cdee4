// List ops: checks, contiguity and version counters around the kernels, which want contiguous lists of equal shapes and dtypes.

#include <vector>

#include "deckle/autograd/support.h"
#include "deckle/base/check.h"
#include "deckle/dispatch/kernel_row.h"
#include "deckle/dispatch/view.h"
#include "deckle/ops/copy.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/foreach.h"

namespace deckle {

namespace kernels::cpu {
using List = std::span<const View>;
void foreach_adamw(const Context&, List parameters, List gradients, List averages, List squares, double lr, double beta1,
                   double beta2, double epsilon, double weight_decay, int64_t step);
void foreach_sgd_momentum(const Context&, List parameters, List gradients, List velocities, double lr, double momentum,
                          double weight_decay, double dampening, bool nesterov);
void foreach_sgd(const Context&, List parameters, List gradients, double lr, double weight_decay);
void foreach_add(const Context&, List self, List other, double alpha);
void foreach_mul(const Context&, List self, List other);
void foreach_scale(const Context&, List self, double factor);
void foreach_addcmul(const Context&, List self, List first, List second, double value);
void foreach_addcdiv(const Context&, List self, List numerator, List denominator, double value);
void foreach_sqrt(const Context&, List self);
}  // namespace kernels::cpu

namespace {

constexpr dispatch::KernelRow<decltype(kernels::cpu::foreach_adamw)> kAdamw{&kernels::cpu::foreach_adamw};
constexpr dispatch::KernelRow<decltype(kernels::cpu::foreach_sgd_momentum)> kSgdMomentum{&kernels::cpu::foreach_sgd_momentum};
constexpr dispatch::KernelRow<decltype(kernels::cpu::foreach_sgd)> kSgd{&kernels::cpu::foreach_sgd};
constexpr dispatch::KernelRow<decltype(kernels::cpu::foreach_add)> kAdd{&kernels::cpu::foreach_add};
constexpr dispatch::KernelRow<decltype(kernels::cpu::foreach_mul)> kMul{&kernels::cpu::foreach_mul};
constexpr dispatch::KernelRow<decltype(kernels::cpu::foreach_scale)> kScale{&kernels::cpu::foreach_scale};
constexpr dispatch::KernelRow<decltype(kernels::cpu::foreach_addcmul)> kAddcmul{&kernels::cpu::foreach_addcmul};
constexpr dispatch::KernelRow<decltype(kernels::cpu::foreach_addcdiv)> kAddcdiv{&kernels::cpu::foreach_addcdiv};
constexpr dispatch::KernelRow<decltype(kernels::cpu::foreach_sqrt)> kSqrt{&kernels::cpu::foreach_sqrt};

// The lists of one call as a kernel wants them.
class Lists {
 public:
  /// The first of `lists` gives the shapes and dtypes; the first `written` of them are written.
  Lists(std::initializer_list<TensorList> lists, size_t written) : written_(written), lists_(lists) {
    check_alike();
    for (const TensorList& list : lists_) {
      std::vector<Tensor> dense;
      for (const Tensor& tensor : list) dense.push_back(native::contiguous(tensor));
      views_.push_back(dispatch::views(dense));
      dense_.push_back(std::move(dense));
    }
  }

  std::span<const View> operator[](size_t list) const { return views_[list]; }
  Device device() const { return dispatch::common_device(lists_[0]); }

  /// Brings results home to tensors that are not contiguous, and makes saved tensors of their storages stale.
  void finish() const {
    for (size_t list = 0; list < written_; ++list) {
      for (size_t i = 0; i < lists_[list].size(); ++i) {
        const Tensor& tensor = lists_[list][i];
        if (!tensor.is_same(dense_[list][i])) native::copy_into(tensor, dense_[list][i]);
        autograd::bump_version(tensor);
      }
    }
  }

 private:
  void check_alike() const {
    for (size_t j = 0; j < lists_.size(); ++j) {
      check(lists_[j].size() == lists_[0].size(), "list {} has {} tensors, list 0 has {} (expected as many)", j, lists_[j].size(),
            lists_[0].size());
      check(!autograd::records(lists_[j]),
            "a tensor requires grad, and list ops are not recorded (expected a call under NoGrad)");
      check(autograd::tangent_levels(lists_[j]).empty(),
            "a tensor of list {} carries a tangent, and list ops have no forward mode (expected tensors without)", j);
      for (size_t i = 0; i < lists_[j].size(); ++i) {
        const Tensor& tensor = lists_[j][i];
        const Tensor& first = lists_[0][i];
        check(tensor.defined(), "tensor {} of list {} is undefined (expected a tensor)", i, j);
        if (j < written_) native::check_writable(tensor);
        check(is_floating(tensor.dtype()), "tensor {} of list {} is {} (expected a floating dtype)", i, j, name(tensor.dtype()));
        check(tensor.sizes() == first.sizes() && tensor.dtype() == first.dtype(),
              "tensor {} of list {} is {} {}, that of list 0 is {} {} (expected the same)", i, j, name(tensor.dtype()),
              tensor.sizes(), name(first.dtype()), first.sizes());
      }
    }
  }

  size_t written_;
  std::vector<TensorList> lists_;
  std::vector<std::vector<Tensor>> dense_;
  std::vector<std::vector<View>> views_;
};

}  // namespace

void composite::foreach_adamw_(TensorList parameters, TensorList gradients, TensorList averages, TensorList squares, double lr,
                               double beta1, double beta2, double epsilon, double weight_decay, int64_t step) {
  check(step >= 1, Argument{"step"}, "is {} (expected 1 or more)", step);
  const Lists lists({parameters, averages, squares, gradients}, 3);
  kAdamw.on(lists.device())(Context{lists.device()}, lists[0], lists[3], lists[1], lists[2], lr, beta1, beta2, epsilon,
                            weight_decay, step);
  lists.finish();
}

void composite::foreach_sgd_(TensorList parameters, TensorList gradients, double lr, double weight_decay) {
  const Lists lists({parameters, gradients}, 1);
  kSgd.on(lists.device())(Context{lists.device()}, lists[0], lists[1], lr, weight_decay);
  lists.finish();
}

void composite::foreach_sgd_momentum_(TensorList parameters, TensorList gradients, TensorList velocities, double lr,
                                      double momentum, double weight_decay, double dampening, bool nesterov) {
  const Lists lists({parameters, velocities, gradients}, 2);
  kSgdMomentum.on(lists.device())(Context{lists.device()}, lists[0], lists[2], lists[1], lr, momentum, weight_decay, dampening,
                                  nesterov);
  lists.finish();
}

void composite::foreach_add_(TensorList self, TensorList other, double alpha) {
  const Lists lists({self, other}, 1);
  kAdd.on(lists.device())(Context{lists.device()}, lists[0], lists[1], alpha);
  lists.finish();
}

void composite::foreach_mul_(TensorList self, TensorList other) {
  const Lists lists({self, other}, 1);
  kMul.on(lists.device())(Context{lists.device()}, lists[0], lists[1]);
  lists.finish();
}

void composite::foreach_scale_(TensorList self, double factor) {
  const Lists lists({self}, 1);
  kScale.on(lists.device())(Context{lists.device()}, lists[0], factor);
  lists.finish();
}

void composite::foreach_addcmul_(TensorList self, TensorList first, TensorList second, double value) {
  const Lists lists({self, first, second}, 1);
  kAddcmul.on(lists.device())(Context{lists.device()}, lists[0], lists[1], lists[2], value);
  lists.finish();
}

void composite::foreach_addcdiv_(TensorList self, TensorList numerator, TensorList denominator, double value) {
  const Lists lists({self, numerator, denominator}, 1);
  kAddcdiv.on(lists.device())(Context{lists.device()}, lists[0], lists[1], lists[2], value);
  lists.finish();
}

void composite::foreach_sqrt_(TensorList self) {
  const Lists lists({self}, 1);
  kSqrt.on(lists.device())(Context{lists.device()}, lists[0]);
  lists.finish();
}

void composite::foreach_zero_(TensorList self) {
  const Lists lists({self}, 1);
  for (const Tensor& tensor : self) zero_(tensor);
}

}  // namespace deckle
