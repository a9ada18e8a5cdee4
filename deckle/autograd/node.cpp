#include "deckle/autograd/node.h"

#include <atomic>

#include "deckle/autograd/history.h"
#include "deckle/base/check.h"
#include "deckle/core/tensor_impl.h"

namespace deckle::autograd {
namespace {

std::atomic<uint64_t> next_sequence{0};

struct Graveyard {
  std::vector<std::shared_ptr<Node>> waiting;
  bool draining = false;
};

thread_local Graveyard graveyard;

}  // namespace

void release_deferred(std::shared_ptr<Node> pointer) noexcept {
  if (pointer == nullptr) return;
  graveyard.waiting.push_back(std::move(pointer));
  if (graveyard.draining) return;
  graveyard.draining = true;
  while (!graveyard.waiting.empty()) {
    const std::shared_ptr<Node> next = std::move(graveyard.waiting.back());
    graveyard.waiting.pop_back();
  }
  graveyard.draining = false;
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

void Node::add_hook(uint32_t slot, GradientHook hook) { hooks_.emplace_back(slot, std::move(hook)); }

void Node::run_hooks(std::vector<Tensor>& gradients) const {
  for (const auto& [slot, hook] : hooks_) {
    if (slot >= gradients.size() || !gradients[slot].defined()) continue;
    Tensor replaced = hook(gradients[slot]);
    if (!replaced.defined()) continue;
    check(replaced.sizes() == gradients[slot].sizes(), "a gradient hook of {} returned shape {} for a gradient of shape {}", name(),
          replaced.sizes(), gradients[slot].sizes());
    gradients[slot] = std::move(replaced);
  }
}

Tensor Gradients::operator[](size_t slot) const {
  if (defined(slot)) return values_[slot];
  const OutputSpec& spec = node_.outputs()[slot];
  return zeros_raw(spec.sizes, spec.dtype, spec.device);
}

bool GradientSink::wants_any(size_t first, size_t count) const {
  for (size_t slot = first; slot < first + count; ++slot) {
    if (wanted_[slot]) return true;
  }
  return false;
}

void GradientSink::put_list(size_t first, const std::vector<Tensor>& gradients) {
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (wanted_[first + i]) values_[first + i] = gradients[i];
  }
}

}  // namespace deckle::autograd
