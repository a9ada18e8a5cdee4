#include "deckle/autograd/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <queue>
#include <unordered_map>

#include "deckle/autograd/accumulate.h"
#include "deckle/autograd/autocast.h"
#include "deckle/autograd/grad_mode.h"
#include "deckle/autograd/history.h"
#include "deckle/autograd/public_ops.h"
#include "deckle/base/check.h"
#include "deckle/core/factory_device.h"
#include "deckle/core/tensor_impl.h"

namespace deckle::autograd {
namespace {

constexpr int64_t kNone = -1;

/// What the engine knows of a node during one pass.
struct Entry {
  Node* node = nullptr;           // which the roots or the captures keep
  std::vector<Tensor> gradients;  // one per output, undefined until something arrives
  int64_t capture = kNone;        // the first one, see Pass::captures_
  int64_t dependencies = 0;
  bool leads_to_capture = false;  // some node further down is wanted
  bool visited = false;
  bool finished = false;

  bool wanted() const { return leads_to_capture || capture != kNone; }
};

/// An output whose gradient is a result.
struct Capture {
  uint32_t slot = 0;
  int64_t next = kNone;  // another one of the same node
  bool reached = false;  // something depends on it: the gradient exists, if only as zeros
};

class Pass {
 public:
  Pass(std::span<const Edge> roots, std::span<const Edge> captures, bool retain_graph, bool create_graph)
      : capturing_(!captures.empty()),
        retain_(retain_graph),
        create_(create_graph),
        results_(captures.size()),
        captures_(captures.size()) {
    for (size_t i = 0; i < captures.size(); ++i) {
      if (captures[i].node == nullptr) continue;
      Entry& captured = entry(captures[i].node.get());
      captures_[i] = {captures[i].slot, captured.capture};
      captured.capture = static_cast<int64_t>(i);
    }
    for (const Edge& root : roots) {
      if (root.node == nullptr) continue;
      reach(root);
      discover(root.node.get());
    }
    count_dependencies();
  }

  std::vector<Tensor> run(std::span<const Edge> roots, TensorList gradients) {
    const GradMode mode(create_);
    const Autocast as_recorded(std::nullopt);
    for (size_t i = 0; i < roots.size(); ++i) {
      if (roots[i].node == nullptr) continue;
      Entry& target = entry(roots[i].node.get());
      accumulate(target, roots[i].slot, gradients[i]);
      if (target.dependencies == 0 && !target.finished) ready(target);
    }
    while (!queue_.empty()) {
      Entry& next = *queue_.top().second;
      queue_.pop();
      if (next.finished) continue;  // a root that was ready twice
      next.finished = true;
      execute(next);
    }
    for (const auto& [node, candidate] : entries_) {
      for_captures(candidate, [&, node = node](const Capture& capture, Tensor& result) {
        if (capture.reached && !result.defined()) result = zeros_of(*node, capture.slot);
      });
    }
    return std::move(results_);
  }

 private:
  Entry& entry(Node* node) {
    Entry& found = entries_[node];
    found.node = node;
    return found;
  }

  /// Calls visit(capture, its result) for the captures of a node.
  template <typename Visit>
  void for_captures(const Entry& of, const Visit& visit) {
    for (int64_t i = of.capture; i != kNone; i = captures_[static_cast<size_t>(i)].next)
      visit(captures_[static_cast<size_t>(i)], results_[static_cast<size_t>(i)]);
  }

  static Tensor zeros_of(const Node& node, uint32_t slot) {
    const OutputSpec& spec = node.outputs()[slot];
    return zeros_raw(spec.sizes, spec.dtype, spec.device);
  }

  /// Something depends on this output of a node.
  void reach(const Edge& edge) {
    for_captures(entry(edge.node.get()), [&](Capture& capture, Tensor&) { capture.reached |= capture.slot == edge.slot; });
  }

  /// Depth first without recursion; on the way up, tells each node whether something below is captured.
  void discover(Node* root) {
    std::vector<std::pair<Entry*, size_t>> stack;
    const auto enter = [&](Node* node) {
      Entry& found = entry(node);
      if (found.visited) return;
      found.visited = true;
      order_.push_back(&found);
      stack.emplace_back(&found, 0);
    };
    enter(root);
    while (!stack.empty()) {
      auto& [current, next_edge] = stack.back();
      const std::vector<Edge>& edges = current->node->edges();
      if (next_edge < edges.size()) {
        const Edge& edge = edges[next_edge++];
        if (edge.node == nullptr) continue;
        if (capturing_) reach(edge);
        enter(edge.node.get());
        continue;
      }
      for (const Edge& edge : edges) {
        if (edge.node != nullptr && entry(edge.node.get()).wanted()) current->leads_to_capture = true;
      }
      stack.pop_back();
    }
  }

  bool runs(const Entry& candidate) const { return !capturing_ || candidate.leads_to_capture; }
  bool takes(const Entry& candidate) const {
    if (capturing_) return candidate.wanted();
    const AccumulateGrad* const leaf = as_leaf(*candidate.node);
    return leaf == nullptr || !leaf->closed();
  }

  void count_dependencies() {
    for (const Entry* source : order_) {
      if (!runs(*source)) continue;
      for (const Edge& edge : source->node->edges()) {
        if (edge.node == nullptr) continue;
        Entry& target = entries_.at(edge.node.get());
        if (takes(target)) ++target.dependencies;
      }
    }
  }

  void ready(Entry& candidate) { queue_.emplace(candidate.node->sequence(), &candidate); }

  void accumulate(Entry& target, uint32_t slot, Tensor gradient) {
    if (!gradient.defined()) return;
    const OutputSpec& spec = target.node->outputs()[slot];
    if (!(gradient.sizes() == IntSpan(spec.sizes))) {
      fail(ErrorKind::runtime, "a gradient of shape {} reached {}, whose result has shape {} (expected the same)",
           to_string(gradient.sizes()), target.node->name(), to_string(spec.sizes));
    }
    if (gradient.dtype() != spec.dtype) gradient = to(gradient, spec.dtype);
    if (target.gradients.empty()) target.gradients.resize(target.node->outputs().size());
    Tensor& present = target.gradients[slot];
    present = present.defined() ? add(present, gradient) : std::move(gradient);
  }

  void execute(Entry& current) {
    Node& node = *current.node;
    std::vector<Tensor> gradients = std::move(current.gradients);
    bool any = false;
    if (gradients.empty() && !capturing_ && node.wants_zeros()) gradients = {zeros_of(node, 0)};
    if (!gradients.empty()) {
      node.run_hooks(gradients);
      if (!capturing_) node.keep_retained(gradients);
      for_captures(current, [&](const Capture& capture, Tensor& result) { result = gradients[capture.slot]; });
      any = true;
    }
    if (!runs(current)) return;

    GradientSink::Wanted wanted;
    for (const Edge& edge : node.edges()) wanted.push_back(edge.node != nullptr && takes(entries_.at(edge.node.get())));
    GradientSink sink(std::move(wanted));
    if (any) {
      const auto arrived =
          std::find_if(gradients.begin(), gradients.end(), [](const Tensor& gradient) { return gradient.defined(); });
      const OnDevice there(arrived != gradients.end() ? arrived->device() : Device());
      try {
        node.backward(Gradients(gradients, node), sink);
      } catch (...) {
        rethrow_from(fmt::format("backward of {}", node.name()));
      }
      if (!retain_) node.release();
    }
    gradients.clear();
    for (size_t slot = 0; slot < node.edges().size(); ++slot) {
      const Edge& edge = node.edges()[slot];
      if (edge.node == nullptr) continue;
      Entry& target = entries_.at(edge.node.get());
      if (!takes(target)) continue;
      accumulate(target, edge.slot, std::move(sink.values()[slot]));
      if (--target.dependencies == 0) ready(target);
    }
  }

  struct EarlierFirst {
    bool operator()(const std::pair<uint64_t, Entry*>& a, const std::pair<uint64_t, Entry*>& b) const {
      return a.first < b.first;
    }
  };

  bool capturing_;
  bool retain_;
  bool create_;
  std::vector<Tensor> results_;
  std::vector<Capture> captures_;  // by result
  std::unordered_map<Node*, Entry> entries_;
  std::vector<Entry*> order_;
  std::priority_queue<std::pair<uint64_t, Entry*>, std::vector<std::pair<uint64_t, Entry*>>, EarlierFirst>
      queue_;  // last recorded first
};

}  // namespace

std::vector<Tensor> run_backward(std::span<const Edge> roots, TensorList gradients, std::span<const Edge> captures,
                                 bool retain_graph, bool create_graph) try {
  Pass pass(roots, captures, retain_graph, create_graph);
  return pass.run(roots, gradients);
} catch (const std::bad_alloc&) {  // an Error says itself whose backward it is
  rethrow_from("backward");
}

}  // namespace deckle::autograd
