#include "deckle/autograd/node.h"

#include <atomic>

#include "deckle/autograd/accumulate.h"
#include "deckle/autograd/history.h"
#include "deckle/base/check.h"
#include "deckle/core/tensor_impl.h"

namespace deckle::autograd {
namespace {

std::atomic<uint64_t> next_sequence{0};

// Nodes to destroy, while this thread destroys a graph. A bare pointer, because it needs no destruction itself: tensors in
// static storage die after the thread's own objects.
thread_local std::vector<std::shared_ptr<Node>>* waiting = nullptr;

}  // namespace

void release_deferred(std::shared_ptr<Node> pointer) noexcept {
  if (pointer == nullptr) return;
  if (pointer.use_count() > 1) return;  // others keep it: letting go of this handle destroys nothing
  if (waiting != nullptr) {
    try {
      waiting->push_back(std::move(pointer));
    } catch (...) {  // no memory left for the list: `pointer` is destroyed here and now
    }
    return;
  }
  std::vector<std::shared_ptr<Node>> nodes;
  waiting = &nodes;
  pointer.reset();
  while (!nodes.empty()) {
    const std::shared_ptr<Node> next = std::move(nodes.back());
    nodes.pop_back();
  }
  waiting = nullptr;
}

Node::Node() : sequence_(next_sequence.fetch_add(1, std::memory_order_relaxed)) {}

Node::~Node() {
  for (Edge& edge : edges_) release_deferred(std::move(edge.node));
}

void Node::connect_input(const Tensor& input) { edges_.push_back(gradient_edge(input)); }

void Node::connect_input(TensorList inputs) {
  for (const Tensor& input : inputs) edges_.push_back(gradient_edge(input));
}

uint32_t Node::add_output(const Tensor& output) {
  outputs_.push_back({Dims(output.sizes()), output.dtype(), output.device()});
  return static_cast<uint32_t>(outputs_.size() - 1);
}

void add_hook(std::vector<Hook>& hooks, Hook hook) {
  std::erase_if(hooks, [](const Hook& present) { return *present.function == nullptr; });
  hooks.push_back(std::move(hook));
}

void Node::run_hooks(std::vector<Tensor>& gradients) const {
  for (const auto& [slot, function] : hooks_) {
    if (slot >= gradients.size() || !gradients[slot].defined()) continue;
    const GradientHook hook = *function;  // a copy, as it may remove itself
    if (hook == nullptr) continue;
    Tensor& gradient = gradients[slot];
    Tensor replaced = hook(gradient);
    if (!replaced.defined()) continue;
    call_as("register_hook", [&] {
      check(
          replaced.sizes() == gradient.sizes() && replaced.dtype() == gradient.dtype() && replaced.device() == gradient.device(),
          "a gradient hook of {} returned a {} tensor of shape {} on {} for a {} gradient of shape {} on {} (expected the same)",
          name(), deckle::name(replaced.dtype()), replaced.sizes(), replaced.device(), deckle::name(gradient.dtype()),
          gradient.sizes(), gradient.device());
    });
    gradient = std::move(replaced);
  }
}

void Node::keep_retained(const std::vector<Tensor>& gradients) const {
  for (const auto& [slot, variable] : retained_) {
    const std::shared_ptr<Meta> meta = variable.lock();
    const bool current = meta != nullptr && meta->node.get() == this;  // an in-place write gives the variable another node
    if (current && slot < gradients.size() && gradients[slot].defined()) add_to_grad(*meta, gradients[slot]);
  }
}

Tensor Gradients::operator[](size_t slot) const {
  if (defined(slot)) return values_[slot];
  check(slot < size(), "a formula of {} reads the gradient of result {} of {} (expected 0 or more, and less than {})",
        node_.name(), slot, size(), size());
  if (zeros_.empty()) zeros_.resize(size());
  if (!zeros_[slot].defined()) {
    const OutputSpec& spec = node_.outputs()[slot];
    zeros_[slot] = zeros_raw(spec.sizes, spec.dtype, spec.device);
  }
  return zeros_[slot];
}

bool GradientSink::wants_any(size_t first, size_t count) const {
  for (size_t slot = first; slot < first + count; ++slot) {
    if (wanted_[slot]) return true;
  }
  return false;
}

void GradientSink::put_list(size_t first, const std::vector<Tensor>& gradients) {
  check(first + gradients.size() <= wanted_.size(), "{} gradients for a list of at most {} tensors (expected no more)",
        gradients.size(), wanted_.size() - first);
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (wanted_[first + i]) values_[first + i] = gradients[i];
  }
}

void GradientSink::put_list(size_t first, size_t count, const std::vector<Tensor>& gradients) {
  check(gradients.size() == count, "{} gradients for a list of {} tensors (expected as many)", gradients.size(), count);
  put_list(first, gradients);
}

}  // namespace deckle::autograd
