#include "deckle/autograd/others.h"

#include <unordered_set>
#include <vector>

#include "deckle/autograd/accumulate.h"
#include "deckle/autograd/forward_mode.h"
#include "deckle/autograd/history.h"

namespace deckle::autograd {
namespace {

/// The nodes not yet seen, depth first without recursion.
class Search {
 public:
  /// Leaves do not count; a result is a way to where it came from.
  explicit Search(TensorList variables) {
    for (const Tensor& variable : variables) {
      const Edge edge = recorded_edge(variable);
      if (edge.node != nullptr && as_leaf(*edge.node) != nullptr) seen_.insert(edge.node.get());
    }
  }

  bool finds(const Tensor& from) {
    if (!from.defined()) return false;
    enter(gradient_edge(from).node.get());
    while (!found_ && !stack_.empty()) {
      const Node* const node = stack_.back();
      stack_.pop_back();
      for (const Edge& edge : node->edges()) enter(edge.node.get());
    }
    if (found_) return true;
    for (const Level level : tangent_levels(from)) {
      if (finds(tangent(from, level))) return true;
    }
    return false;
  }

 private:
  void enter(const Node* node) {
    if (node == nullptr || !seen_.insert(node).second) return;
    const AccumulateGrad* const leaf = as_leaf(*node);
    found_ |= leaf != nullptr && !leaf->closed();
    stack_.push_back(node);
  }

  std::unordered_set<const Node*> seen_;
  std::vector<const Node*> stack_;  // kept by what the search started from
  bool found_ = false;
};

}  // namespace

bool depend_on_others(TensorList tensors, TensorList variables) {
  Search search(variables);
  for (const Tensor& tensor : tensors) {
    if (search.finds(tensor)) return true;
  }
  return false;
}

}  // namespace deckle::autograd
