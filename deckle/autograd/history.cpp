#include "deckle/autograd/history.h"

#include <algorithm>

#include "deckle/autograd/accumulate.h"
#include "deckle/autograd/copy_slices.h"
#include "deckle/autograd/forward_mode.h"
#include "deckle/autograd/public_ops.h"
#include "deckle/autograd/view_layout.h"
#include "deckle/base/check.h"
#include "deckle/core/tensor_impl.h"

namespace deckle::autograd {
namespace {

/// A write of constants: the earlier value, if it has a slot, takes part and its gradient is zero.
struct OverwriteBackward final : Node {
  std::string_view name() const override { return "an in-place write"; }
  void backward(const Gradients&, GradientSink&) override {}
};

Meta* meta_of(const Tensor& tensor) { return tensor.defined() ? tensor.impl()->meta.get() : nullptr; }

void set_origin(const Tensor& tensor, std::shared_ptr<Node> node, uint32_t slot) {
  Meta& meta = *tensor.impl()->meta;
  if (meta.retains_grad) node->retain(slot, tensor.impl()->meta);
  meta.node = std::move(node);
  meta.slot = slot;
}

/// Which node a tensor that is no view comes from; 0 for none.
uint64_t number_of_history(const Tensor& tensor) {
  const Meta* const meta = meta_of(tensor);
  return meta != nullptr && meta->node != nullptr ? meta->node->sequence() + 1 : 0;
}

/// The base was written to since the view's node was made: derives the node from the base again.
void refresh_view(const Tensor& view) {
  Meta& meta = *view.impl()->meta;
  if (meta.kind == ViewKind::no_grad) {
    check(!grad_enabled() || number_of_history(meta.base) == meta.version,
          "a view of shape {} that was made under NoGrad is read with recording on, after a recorded write to its base "
          "(expected a view made with recording on, or detach() for a constant)",
          view.sizes());
    return;
  }
  if (meta.version == view.version() || !requires_grad(meta.base)) return;
  // The history of an overlapping base stays as it is: check_inplace refuses the writes that would change it.
  if (!distinct_places(meta.base.sizes(), meta.base.strides())) return;
  const EnableGrad recording;
  const ViewLayout layout(meta.base, view);
  const Edge fresh = origin(layout.part(layout.memory_of(meta.base)));
  set_origin(view, fresh.node, fresh.slot);
  meta.version = view.version();
}

}  // namespace

Meta& ensure_meta(const Tensor& tensor) {
  check(tensor.defined(), "the tensor is undefined (expected a defined one)");
  std::shared_ptr<Meta>& meta = tensor.impl()->meta;
  if (meta == nullptr) meta = std::make_shared<Meta>();
  return *meta;
}

const Tensor& base_of(const Tensor& tensor) {
  const Meta* const meta = meta_of(tensor);
  return meta != nullptr && meta->base.defined() ? meta->base : tensor;
}

Edge origin(const Tensor& tensor) {
  Meta* const meta = meta_of(tensor);
  if (meta == nullptr) return {};
  if (!meta->base.defined()) return {meta->node, meta->slot};
  const std::lock_guard lock(meta->mutex);  // threads that only read may all find the view stale
  refresh_view(tensor);
  return {meta->node, meta->slot};
}

bool requires_grad(const Tensor& tensor) {
  const Meta* const meta = meta_of(tensor);
  if (meta == nullptr) return false;
  if (meta->requires_grad) return true;
  return meta->base.defined() ? origin(tensor).node != nullptr : meta->node != nullptr;
}

bool requires_grad(TensorList tensors) {
  for (const Tensor& tensor : tensors) {
    if (requires_grad(tensor)) return true;
  }
  return false;
}

Edge gradient_edge(const Tensor& tensor) {
  Edge edge = origin(tensor);
  Meta* const meta = meta_of(tensor);
  if (edge.node != nullptr || meta == nullptr || !meta->requires_grad) return edge;
  const std::lock_guard lock(meta->mutex);
  std::shared_ptr<Node> accumulator = meta->accumulator.lock();
  if (accumulator == nullptr) {
    accumulator = std::make_shared<AccumulateGrad>(tensor.impl()->meta, tensor);
    for (const Hook& hook : meta->leaf_hooks) accumulator->add_hook(hook);
    meta->accumulator = accumulator;
  }
  return {std::move(accumulator), 0};
}

Edge recorded_edge(const Tensor& tensor) {
  Edge edge = origin(tensor);
  Meta* const meta = meta_of(tensor);
  if (edge.node != nullptr || meta == nullptr || !meta->requires_grad) return edge;
  const std::lock_guard lock(meta->mutex);
  return {meta->accumulator.lock(), 0};
}

void attach(const Tensor& result, const std::shared_ptr<Node>& node) {
  const uint32_t slot = node->add_output(result);
  if (is_integral(result.dtype())) return;
  ensure_meta(result);
  set_origin(result, node, slot);
}

void attach_all(TensorList results, const std::shared_ptr<Node>& node) {
  for (const Tensor& result : results) attach(result, node);
}

void attach_all(TensorList results, const std::shared_ptr<Node>& node, std::initializer_list<TensorList> inputs) {
  for (size_t i = 0; i < results.size(); ++i)
    requires_grad_at(i, inputs) ? attach(results[i], node) : void(node->add_output(results[i]));
}

bool requires_grad_at(size_t i, std::initializer_list<TensorList> lists) {
  return std::any_of(lists.begin(), lists.end(),
                     [i](const TensorList& list) { return i < list.size() && requires_grad(list[i]); });
}

void mark_view(const Tensor& result, const Tensor& self, bool multi_output) {
  check(result.storage() == self.storage() && result.dtype() == self.dtype(),
        "the result has other memory or another dtype than self (expected a view of it)");
  const Meta* const shown = meta_of(self);
  const bool of_view = shown != nullptr && shown->base.defined();
  Meta& meta = ensure_meta(result);
  meta.base = of_view ? shown->base : self;
  meta.kind = of_view ? shown->kind : ViewKind::plain;
  if (multi_output) meta.kind = ViewKind::multi_output;
  if (!grad_enabled()) meta.kind = ViewKind::no_grad;
  // A constant says from which history of its base on it is one.
  meta.version = meta.kind != ViewKind::no_grad ? result.version()
                 : grad_enabled()               ? shown->version
                                                : number_of_history(meta.base);
  result.impl()->tangent_limit = self.impl()->tangent_limit;
}

void check_inplace(const Tensor& self, bool recorded) {
  if (!grad_enabled()) return;
  const Meta* const meta = meta_of(self);
  if (meta == nullptr) return;
  check(!(meta->requires_grad && origin(self).node == nullptr),
        "an in-place write to a leaf that requires grad (expected a result, or a call under NoGrad)");
  if (!meta->base.defined()) return;
  const Tensor& base = meta->base;
  check(!(base.is_leaf() && base.requires_grad()),
        "an in-place write to a view of a leaf that requires grad (expected a view of a result, or a call under NoGrad)");
  if (!recorded && !requires_grad(base)) return;
  check(meta->kind != ViewKind::multi_output,
        "an in-place write to one output of an op that returns several views (expected a clone of it)");
  check(meta->kind != ViewKind::no_grad,
        "an in-place write, with recording on, to a view that was made under NoGrad (expected one made with recording on)");
  check(distinct_places(base.sizes(), base.strides()),
        "a recorded in-place write to a view of a tensor of shape {} and strides {}, of whose elements several share a place "
        "(expected a view of its clone)",
        base.sizes(), base.strides());
}

void bump_version(const Tensor& self) { self.storage()->bump_version(); }

void rebase(const Tensor& self, const std::shared_ptr<Node>& node, size_t self_slot) {
  if (!is_floating(self.dtype())) return;
  const Tensor base = base_of(self);
  const bool whole = base.is_same(self);
  if (node == nullptr) {
    if (!grad_enabled() || !requires_grad(base)) return;
    const auto constant = std::make_shared<OverwriteBackward>();
    if (whole) constant->connect(self);
    rebase(self, constant, whole ? 0 : kNoSlot);
    return;
  }
  const uint32_t slot = node->add_output(self);
  ensure_meta(base).requires_grad = false;
  if (whole) {
    set_origin(self, node, slot);
  } else {
    // The view's own node is derived from the base's on the next look: its version is stale by now.
    set_origin(base, std::make_shared<CopySlices>(gradient_edge(base), base, self, node, self_slot), 0);
  }
}

bool shares_memory(const Tensor& self, std::initializer_list<Tensor> operands) {
  return std::any_of(operands.begin(), operands.end(),
                     [&](const Tensor& operand) { return operand.defined() && operand.storage() == self.storage(); });
}

Tensor apart_from(const Tensor& self, const Tensor& operand) { return shares_memory(self, {operand}) ? clone(operand) : operand; }

void check_out(std::span<const Tensor> tensors) {
  for (const Tensor& tensor : tensors) {
    check(!(grad_enabled() && requires_grad(tensor)),
          "an argument requires grad, and an out= variant records nothing (expected a call under NoGrad)");
    check(tangent_levels(tensor).empty(),
          "an argument carries a tangent, and an out= variant has no forward mode (expected arguments without)");
  }
}

}  // namespace deckle::autograd
