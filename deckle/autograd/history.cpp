#include "deckle/autograd/history.h"

#include "deckle/autograd/accumulate.h"
#include "deckle/autograd/copy_slices.h"
#include "deckle/autograd/forward_mode.h"
#include "deckle/base/check.h"
#include "deckle/core/tensor_impl.h"

namespace deckle::autograd {
namespace {

Meta* meta_of(const Tensor& tensor) { return tensor.defined() ? tensor.impl()->meta.get() : nullptr; }

/// The base was written to since the view's node was made: derive the node from the base again.
void refresh_view(Meta& meta, const Tensor& tensor) {
  ViewInfo& view = *meta.view;
  if (view.kind == ViewKind::no_grad || view.version == tensor.version() || !requires_grad(view.base)) return;
  const EnableGrad recording;
  const Tensor fresh = view.replay(view.base);
  meta.node = fresh.impl()->meta->node;
  meta.slot = fresh.impl()->meta->slot;
  view.version = tensor.version();
}

}  // namespace

Meta& ensure_meta(const Tensor& tensor) {
  std::shared_ptr<Meta>& meta = tensor.impl()->meta;
  if (meta == nullptr) meta = std::make_shared<Meta>();
  return *meta;
}

std::shared_ptr<Node> grad_node(const Tensor& tensor) {
  Meta* const meta = meta_of(tensor);
  if (meta == nullptr) return nullptr;
  if (meta->view != nullptr) refresh_view(*meta, tensor);
  return meta->node;
}

bool requires_grad(const Tensor& tensor) {
  Meta* const meta = meta_of(tensor);
  if (meta == nullptr) return false;
  return meta->requires_grad || grad_node(tensor) != nullptr;
}

bool requires_grad(TensorList tensors) {
  for (const Tensor& tensor : tensors) {
    if (requires_grad(tensor)) return true;
  }
  return false;
}

Edge gradient_edge(const Tensor& tensor) {
  Meta* const meta = meta_of(tensor);
  if (meta == nullptr) return {};
  if (std::shared_ptr<Node> node = grad_node(tensor)) return {std::move(node), meta->slot};
  if (!meta->requires_grad) return {};
  const std::lock_guard lock(meta->mutex);
  std::shared_ptr<Node> accumulator = meta->accumulator.lock();
  if (accumulator == nullptr) {
    accumulator = std::make_shared<AccumulateGrad>(tensor.impl()->meta, tensor);
    for (const auto& [slot, hook] : meta->leaf_hooks) accumulator->add_hook(slot, hook);
    meta->accumulator = accumulator;
  }
  return {std::move(accumulator), 0};
}

void attach(const Tensor& result, const std::shared_ptr<Node>& node) {
  const uint32_t slot = node->add_output(result);
  if (is_integral(result.dtype())) return;
  Meta& meta = ensure_meta(result);
  meta.node = node;
  meta.slot = slot;
}

void attach_all(TensorList results, const std::shared_ptr<Node>& node) {
  for (const Tensor& result : results) attach(result, node);
}

void mark_view(const Tensor& result, const Tensor& self, ViewFunction replay, bool multi_output) {
  auto view = std::make_shared<ViewInfo>();
  const Meta* const self_meta = meta_of(self);
  if (self_meta != nullptr && self_meta->view != nullptr) {
    view->base = self_meta->view->base;
    view->replay = [first = self_meta->view->replay, second = std::move(replay)](const Tensor& base) { return second(first(base)); };
    view->kind = self_meta->view->kind;
  } else {
    view->base = self;
    view->replay = std::move(replay);
  }
  if (multi_output) view->kind = ViewKind::multi_output;
  if (!grad_enabled()) view->kind = ViewKind::no_grad;
  view->version = result.version();
  ensure_meta(result).view = std::move(view);
  result.impl()->tangent_limit = self.impl()->tangent_limit;
}

void check_inplace(const Tensor& self) {
  if (!grad_enabled()) return;
  const Meta* const meta = meta_of(self);
  if (meta == nullptr) return;
  if (meta->view != nullptr) {
    const Tensor& base = meta->view->base;
    const bool differentiable = requires_grad(base) || requires_grad(self);
    check(!(base.is_leaf() && base.requires_grad()), "an in-place write to a view of a leaf that requires grad");
    check(!(meta->view->kind == ViewKind::multi_output && differentiable),
          "an in-place write to one output of an op that returns several views; clone it first");
    check(!(meta->view->kind == ViewKind::no_grad && differentiable),
          "an in-place write, with recording on, to a view that was made under NoGrad; make the view with recording on");
    return;
  }
  check(!(meta->requires_grad && meta->node == nullptr), "an in-place write to a leaf that requires grad");
}

void bump_version(const Tensor& self) { self.storage()->bump_version(); }

void rebase(const Tensor& self, const std::shared_ptr<Node>& node) {
  const uint32_t slot = node->add_output(self);
  Meta& meta = ensure_meta(self);
  if (meta.view == nullptr) {
    meta.node = node;
    meta.slot = slot;
    meta.requires_grad = false;
    return;
  }
  const Tensor base = meta.view->base;
  auto slices = std::make_shared<CopySlices>(gradient_edge(base), meta.view->replay, node);
  slices->add_output(base);
  Meta& base_meta = ensure_meta(base);
  base_meta.node = std::move(slices);
  base_meta.slot = 0;
  base_meta.requires_grad = false;
  // The view's own node is derived from the base's on the next look: its version is stale by now.
}

void check_out(TensorList tensors) {
  for (const Tensor& tensor : tensors) {
    check(!(grad_enabled() && requires_grad(tensor)), "an out= variant is not differentiable, and an argument requires grad");
    check(tangent_levels(tensor).empty(), "an out= variant is not differentiable, and an argument carries a tangent");
  }
}

}  // namespace deckle::autograd
