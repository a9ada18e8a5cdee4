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
      edges_.push_back(gradient_edge(variable));  // made if there is none: what is searched may be the variable itself
      const Node* const node = edges_.back().node.get();
      if (node != nullptr && as_leaf(*node) != nullptr) seen_.insert(node);
    }
  }

  bool finds(const Tensor& from) {
    if (!from.defined()) return false;
    kept_.push_back(from);  // the tangent of a view is made for this search: no later node may get its node's address
    edges_.push_back(gradient_edge(from));
    enter(edges_.back().node.get());
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
  std::vector<Tensor> kept_;
  std::vector<Edge> edges_;
  std::vector<const Node*> stack_;  // kept by these
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
