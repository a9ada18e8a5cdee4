// List ops: checks, contiguity and version counters around the kernels, which want contiguous lists of equal shapes and dtypes.
// Steps of optimizers are not recorded. The others write their first list in place; where history or tangents are concerned, by
// the op of one tensor for each element. Kernels go through the elements in any order, several at once: where one writes what
// another reads or writes, they go one by one, in order. The functional ones are below autograd and write copies.

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "deckle/autograd/support.h"
#include "deckle/base/check.h"
#include "deckle/core/cuda/capture.h"
#include "deckle/core/strides.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/dispatch/kernel_row.h"
#include "deckle/dispatch/view.h"
#include "deckle/ops/copy.h"
#include "deckle/ops/copy_lists.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/foreach.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/shape.h"

namespace deckle {

namespace kernels::cpu {
using List = std::span<const View>;
void foreach_adamw(const Context&, List parameters, List gradients, List averages, List squares, double lr, double beta1,
                   double beta2, double epsilon, double weight_decay, int64_t step);
void foreach_adamw_counted(const Context&, List parameters, List gradients, List averages, List squares, const View& counter,
                           const View& skip, double beta1, double beta2, double epsilon, double weight_decay);
void foreach_sgd_momentum(const Context&, List parameters, List gradients, List velocities, double lr, double momentum,
                          double weight_decay, double dampening, bool nesterov);
void foreach_sgd(const Context&, List parameters, List gradients, double lr, double weight_decay);
void foreach_add(const Context&, List self, List other, double alpha);
void foreach_mul(const Context&, List self, List other);
void foreach_copy(const Context&, List self, List source);
void foreach_scale(const Context&, List self, double factor);
void foreach_scale_by(const Context&, List self, const View& factor);
void foreach_addcmul(const Context&, List self, List first, List second, double value);
void foreach_addcdiv(const Context&, List self, List numerator, List denominator, double value);
void foreach_sqrt(const Context&, List self);
}  // namespace kernels::cpu
namespace kernels::cuda {
decltype(cpu::foreach_adamw) foreach_adamw;
decltype(cpu::foreach_adamw_counted) foreach_adamw_counted;
decltype(cpu::foreach_sgd_momentum) foreach_sgd_momentum;
decltype(cpu::foreach_sgd) foreach_sgd;
decltype(cpu::foreach_add) foreach_add;
decltype(cpu::foreach_mul) foreach_mul;
decltype(cpu::foreach_copy) foreach_copy;
decltype(cpu::foreach_scale) foreach_scale;
decltype(cpu::foreach_scale_by) foreach_scale_by;
decltype(cpu::foreach_addcmul) foreach_addcmul;
decltype(cpu::foreach_addcdiv) foreach_addcdiv;
decltype(cpu::foreach_sqrt) foreach_sqrt;
}  // namespace kernels::cuda

namespace {

constexpr dispatch::KernelRow kAdamw{&kernels::cpu::foreach_adamw, DECKLE_CUDA_KERNEL(foreach_adamw)};
constexpr dispatch::KernelRow kAdamwCounted{&kernels::cpu::foreach_adamw_counted, DECKLE_CUDA_KERNEL(foreach_adamw_counted)};
constexpr dispatch::KernelRow kSgdMomentum{&kernels::cpu::foreach_sgd_momentum, DECKLE_CUDA_KERNEL(foreach_sgd_momentum)};
constexpr dispatch::KernelRow kSgd{&kernels::cpu::foreach_sgd, DECKLE_CUDA_KERNEL(foreach_sgd)};
constexpr dispatch::KernelRow kAdd{&kernels::cpu::foreach_add, DECKLE_CUDA_KERNEL(foreach_add)};
constexpr dispatch::KernelRow kMul{&kernels::cpu::foreach_mul, DECKLE_CUDA_KERNEL(foreach_mul)};
constexpr dispatch::KernelRow kCopy{&kernels::cpu::foreach_copy, DECKLE_CUDA_KERNEL(foreach_copy)};
constexpr dispatch::KernelRow kScale{&kernels::cpu::foreach_scale, DECKLE_CUDA_KERNEL(foreach_scale)};
constexpr dispatch::KernelRow kScaleBy{&kernels::cpu::foreach_scale_by, DECKLE_CUDA_KERNEL(foreach_scale_by)};
constexpr dispatch::KernelRow kAddcmul{&kernels::cpu::foreach_addcmul, DECKLE_CUDA_KERNEL(foreach_addcmul)};
constexpr dispatch::KernelRow kAddcdiv{&kernels::cpu::foreach_addcdiv, DECKLE_CUDA_KERNEL(foreach_addcdiv)};
constexpr dispatch::KernelRow kSqrt{&kernels::cpu::foreach_sqrt, DECKLE_CUDA_KERNEL(foreach_sqrt)};

void check_alike(const std::vector<TensorList>& lists, size_t written) {
  for (size_t j = 0; j < lists.size(); ++j) {
    check(lists[j].size() == lists[0].size(), "list {} has {} tensors, list 0 has {} (expected as many)", j, lists[j].size(),
          lists[0].size());
    for (size_t i = 0; i < lists[j].size(); ++i) {
      const Tensor& tensor = lists[j][i];
      const Tensor& first = lists[0][i];
      check(tensor.defined(), "tensor {} of list {} is undefined (expected a tensor)", i, j);
      if (!(tensor.device() == lists[0][0].device())) dispatch::common_device({lists[0][0], tensor});
      if (j < written) native::check_writable(tensor);
      check(is_floating(tensor.dtype()), "tensor {} of list {} is {} (expected a floating dtype)", i, j, name(tensor.dtype()));
      check(tensor.sizes() == first.sizes() && tensor.dtype() == first.dtype(),
            "tensor {} of list {} is {} {}, that of list 0 is {} {} (expected the same)", i, j, name(tensor.dtype()),
            tensor.sizes(), name(first.dtype()), first.sizes());
    }
  }
}

void refuse_recording(const std::vector<TensorList>& lists) {
  for (size_t j = 0; j < lists.size(); ++j) {
    check(!autograd::records(lists[j]), "a tensor requires grad, and this step is not recorded (expected a call under NoGrad)");
    check(autograd::tangent_levels(lists[j]).empty(),
          "a tensor of list {} carries a tangent, and this step has no forward mode (expected tensors without)", j);
  }
}

struct Extent {
  uintptr_t begin, end;
  bool written;
  const Tensor* tensor;
};

/// Whether two tensors, the extents of which overlap, may have a place in common. Exact where they lie alike, as the columns of a
/// matrix do, which interleave without meeting.
bool may_meet(const Extent& first, const Extent& second) {
  const Tensor &a = *first.tensor, &b = *second.tensor;
  const int64_t size = item_size(a.dtype()), distance = static_cast<int64_t>(second.begin - first.begin);
  const bool alike = a.dtype() == b.dtype() && a.sizes() == b.sizes() && a.strides() == b.strides() && distance % size == 0 &&
                     distinct_places(a.sizes(), a.strides());
  return !alike || meets_itself(a.sizes(), a.strides(), distance / size);
}

/// Whether an element of the first `written` lists may lie in the memory of another element, of its own in another layout, or in
/// that of another one which is written.
bool any_overlap(const std::vector<TensorList>& lists, size_t written) {
  std::vector<Extent> extents;
  for (size_t i = 0; i < lists[0].size(); ++i) {
    for (size_t j = 0; j < lists.size(); ++j) {
      const Tensor& tensor = lists[j][i];
      const bool again =
          j >= written && std::any_of(lists.begin(), lists.begin() + static_cast<int64_t>(j), [&](const TensorList& list) {
            return address(list[i]) == address(tensor) && list[i].strides() == tensor.strides();
          });
      if (again || tensor.numel() == 0) continue;
      int64_t last = 0;
      for (int64_t dim = 0; dim < tensor.dim(); ++dim) last += (tensor.size(dim) - 1) * tensor.stride(dim);
      const auto begin = reinterpret_cast<uintptr_t>(address(tensor));
      extents.push_back({begin, begin + static_cast<uintptr_t>((last + 1) * item_size(tensor.dtype())), j < written, &tensor});
    }
  }
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  constexpr int64_t kMostPairs = 1 << 18;  // that are compared: with more, some milliseconds, they are taken for meeting
  int64_t pairs = 0;
  std::vector<const Extent*> open;  // that reach beyond the begin of the next
  for (const Extent& extent : extents) {
    open.erase(std::remove_if(open.begin(), open.end(), [&](const Extent* other) { return other->end <= extent.begin; }),
               open.end());
    for (const Extent* other : open) {
      if ((extent.written || other->written) && (++pairs > kMostPairs || may_meet(*other, extent))) return true;
    }
    open.push_back(&extent);
  }
  return false;
}

/// The lists of one call as a kernel wants them.
class Lists {
 public:
  /// `lists` are alike; the first `written` of them are written.
  Lists(std::vector<TensorList> lists, size_t written) : written_(written), lists_(std::move(lists)) {
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
  size_t written_;
  std::vector<TensorList> lists_;
  std::vector<std::vector<Tensor>> dense_;
  std::vector<std::vector<View>> views_;
};

/// Writes the first of `lists`: all elements at once by `below`, or, where something is recorded, each by `one`.
template <typename Below, typename One>
void write(std::initializer_list<TensorList> lists, const Below& below, const One& one) {
  const std::vector<TensorList> all(lists);
  const TensorList self = all[0];
  const bool recorded = std::any_of(all.begin(), all.end(), [](const TensorList& list) { return autograd::active(list); });
  check_alike(all, 1);
  if (!recorded && !any_overlap(all, 1)) {
    const Lists dense(all, 1);
    below(dense);
    return dense.finish();
  }
  if (recorded) {
    for (const Tensor& tensor : self) autograd::check_inplace(tensor, true);  // before any is written
  }
  for (size_t i = 0; i < self.size(); ++i) one(i);
}

/// A step that writes the first `written` of `lists`.
template <typename Below>
void take_step(const std::vector<TensorList>& lists, size_t written, const Below& below) {
  refuse_recording(lists);
  check_alike(lists, written);
  const auto run = [&](const std::vector<TensorList>& some) {
    const Lists dense(some, written);
    below(dense);
    dense.finish();
  };
  if (!any_overlap(lists, written)) return run(lists);
  std::vector<std::vector<TensorList>> elements(lists[0].size());
  for (size_t i = 0; i < elements.size(); ++i) {
    for (const TensorList& list : lists) elements[i].emplace_back(list[i]);
    const std::vector<TensorList> targets(elements[i].begin(), elements[i].begin() + static_cast<int64_t>(written));
    check(!any_overlap(targets, written), "tensors {} of lists that are written share memory (expected their own)", i);
  }
  for (const std::vector<TensorList>& element : elements) run(element);
}

/// `below` on a copy of the first list.
template <typename Below>
std::vector<Tensor> written_copy(TensorList self, std::initializer_list<TensorList> others, const Below& below) {
  std::vector<TensorList> lists = {self};
  lists.insert(lists.end(), others.begin(), others.end());
  check_alike(lists, 0);
  std::vector<Tensor> result;
  for (const Tensor& tensor : self) result.push_back(native::copy_as(tensor, tensor.dtype()));
  below(result);
  return result;
}

}  // namespace

void composite::foreach_adamw_(TensorList parameters, TensorList gradients, TensorList averages, TensorList squares, double lr,
                               double beta1, double beta2, double epsilon, double weight_decay, int64_t step) {
  check(step >= 1, Argument{"step"}, "is {} (expected 1 or more)", step);
  take_step({parameters, averages, squares, gradients}, 3, [&](const Lists& lists) {
    if (lists.device().is_cuda() && cuda::capturing())
      fail("a graph is being recorded, each replay of which would take step {} (expected AdamW::count_on_device before)", step);
    kAdamw.on(lists.device())(Context{lists.device()}, lists[0], lists[3], lists[1], lists[2], lr, beta1, beta2, epsilon,
                              weight_decay, step);
  });
}

void composite::foreach_adamw_counted_(TensorList parameters, TensorList gradients, TensorList averages, TensorList squares,
                                       const Tensor& counter, const Tensor& skip, double beta1, double beta2, double epsilon,
                                       double weight_decay) {
  check(is_floating(counter.dtype()) && counter.dim() == 1 && counter.numel() == 2, Argument{"counter"},
        "is {} {} (expected floating [2])", name(counter.dtype()), counter.sizes());
  check(!skip.defined() || (skip.dtype() == DType::bool_ && skip.numel() == 1), Argument{"skip"},
        "has more than one element, or is no bool (expected a bool of one)");
  native::check_writable(counter);
  refuse_recording({parameters, averages, squares, gradients});
  check_alike({parameters, averages, squares, gradients}, 3);
  check(!any_overlap({parameters, averages, squares, gradients}, 3), "tensors of the lists share memory (expected their own)");
  const Device device = dispatch::common_device({counter, skip}, parameters);
  const Lists lists({parameters, averages, squares, gradients}, 3);
  const bool plain = counter.dtype() == DType::float64 && counter.is_contiguous();
  const Tensor counts = plain ? counter : native::copy_as(counter, DType::float64);
  kAdamwCounted.on(device)(Context{device}, lists[0], lists[3], lists[1], lists[2], dispatch::view(counts), dispatch::view(skip),
                           beta1, beta2, epsilon, weight_decay);
  lists.finish();
  if (!plain) native::copy_into(counter, counts);
  autograd::bump_version(counter);
}

void composite::foreach_sgd_(TensorList parameters, TensorList gradients, double lr, double weight_decay) {
  take_step({parameters, gradients}, 1,
            [&](const Lists& lists) { kSgd.on(lists.device())(Context{lists.device()}, lists[0], lists[1], lr, weight_decay); });
}

void composite::foreach_sgd_momentum_(TensorList parameters, TensorList gradients, TensorList velocities, double lr,
                                      double momentum, double weight_decay, double dampening, bool nesterov) {
  take_step({parameters, velocities, gradients}, 2, [&](const Lists& lists) {
    kSgdMomentum.on(lists.device())(Context{lists.device()}, lists[0], lists[2], lists[1], lr, momentum, weight_decay, dampening,
                                    nesterov);
  });
}

void composite::foreach_add_(TensorList self, TensorList other, double alpha) {
  write(
      {self, other}, [&](const Lists& lists) { kAdd.on(lists.device())(Context{lists.device()}, lists[0], lists[1], alpha); },
      [&](size_t i) { add_(self[i], alpha == 1 ? other[i] : other[i] * alpha); });
}

void composite::foreach_mul_(TensorList self, TensorList other) {
  write(
      {self, other}, [&](const Lists& lists) { kMul.on(lists.device())(Context{lists.device()}, lists[0], lists[1]); },
      [&](size_t i) { mul_(self[i], other[i]); });
}

void native::copy_lists(TensorList to, TensorList from) {
  take_step({to, from}, 1, [&](const Lists& lists) { kCopy.on(lists.device())(Context{lists.device()}, lists[0], lists[1]); });
}

void composite::foreach_scale_(TensorList self, double factor) {
  write(
      {self}, [&](const Lists& lists) { kScale.on(lists.device())(Context{lists.device()}, lists[0], factor); },
      [&](size_t i) { mul_(self[i], factor); });
}

void composite::foreach_scale_(TensorList self, const Tensor& factor) {
  check(is_floating(factor.dtype()) && factor.numel() == 1, Argument{"factor"}, "is {} {} (expected one floating number)",
        name(factor.dtype()), factor.sizes());
  if (!self.empty()) dispatch::common_device({self[0], factor});
  check_alike({self}, 1);
  const auto each = [&](size_t i) {  // halves have too few bits for a factor
    mul_(self[i], to(reshape(factor, {}), self[i].dtype() == DType::float64 ? DType::float64 : DType::float32));
  };
  if (autograd::active(factor)) {
    for (const Tensor& tensor : self) autograd::check_inplace(tensor, true);  // before any is written
    for (size_t i = 0; i < self.size(); ++i) each(i);
    return;
  }
  const bool own = std::none_of(self.begin(), self.end(), [&](const Tensor& x) { return x.storage() == factor.storage(); });
  const Tensor number = own && factor.dtype() == DType::float64 ? factor : native::copy_as(factor, DType::float64);
  write(
      {self}, [&](const Lists& lists) { kScaleBy.on(lists.device())(Context{lists.device()}, lists[0], dispatch::view(number)); },
      each);
}

void composite::foreach_addcmul_(TensorList self, TensorList first, TensorList second, double value) {
  write(
      {self, first, second},
      [&](const Lists& lists) { kAddcmul.on(lists.device())(Context{lists.device()}, lists[0], lists[1], lists[2], value); },
      [&](size_t i) { add_(self[i], first[i] * second[i] * value); });
}

void composite::foreach_addcdiv_(TensorList self, TensorList numerator, TensorList denominator, double value) {
  write(
      {self, numerator, denominator},
      [&](const Lists& lists) { kAddcdiv.on(lists.device())(Context{lists.device()}, lists[0], lists[1], lists[2], value); },
      [&](size_t i) { add_(self[i], numerator[i] / denominator[i] * value); });
}

void composite::foreach_sqrt_(TensorList self) {
  write(
      {self}, [&](const Lists& lists) { kSqrt.on(lists.device())(Context{lists.device()}, lists[0]); },
      [&](size_t i) { sqrt_(self[i]); });
}

void composite::foreach_zero_(TensorList self) {
  check_alike({self}, 1);
  for (const Tensor& tensor : self) autograd::check_inplace(tensor, false);  // before any is written
  for (const Tensor& tensor : self) zero_(tensor);
}

namespace native {

std::vector<Tensor> foreach_add(TensorList self, TensorList other, double alpha) {
  return written_copy(self, {other}, [&](TensorList result) {
    const Lists lists({result, other}, 1);
    kAdd.on(lists.device())(Context{lists.device()}, lists[0], lists[1], alpha);
  });
}

std::vector<Tensor> foreach_mul(TensorList self, TensorList other) {
  return written_copy(self, {other}, [&](TensorList result) {
    const Lists lists({result, other}, 1);
    kMul.on(lists.device())(Context{lists.device()}, lists[0], lists[1]);
  });
}

std::vector<Tensor> foreach_scale(TensorList self, double factor) {
  return written_copy(self, {}, [&](TensorList result) {
    const Lists lists({result}, 1);
    kScale.on(lists.device())(Context{lists.device()}, lists[0], factor);
  });
}

std::vector<Tensor> foreach_addcmul(TensorList self, TensorList first, TensorList second, double value) {
  return written_copy(self, {first, second}, [&](TensorList result) {
    const Lists lists({result, first, second}, 1);
    kAddcmul.on(lists.device())(Context{lists.device()}, lists[0], lists[1], lists[2], value);
  });
}

std::vector<Tensor> foreach_addcdiv(TensorList self, TensorList numerator, TensorList denominator, double value) {
  return written_copy(self, {numerator, denominator}, [&](TensorList result) {
    const Lists lists({result, numerator, denominator}, 1);
    kAddcdiv.on(lists.device())(Context{lists.device()}, lists[0], lists[1], lists[2], value);
  });
}

std::vector<Tensor> foreach_sqrt(TensorList self) {
  return written_copy(self, {}, [&](TensorList result) {
    const Lists lists({result}, 1);
    kSqrt.on(lists.device())(Context{lists.device()}, lists[0]);
  });
}

}  // namespace native

}  // namespace deckle
