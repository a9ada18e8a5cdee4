#include "tests/ops/made_of.h"

#include <gtest/gtest.h>

#include <vector>

#include "deckle/autograd/history.h"
#include "deckle/autograd/node.h"
#include "deckle/base/error.h"

namespace deckle::suite {

void MadeOf::collect(const std::vector<Tensor>& results) {
  std::set<const autograd::Node*> seen;
  std::vector<const autograd::Node*> open;
  std::vector<std::shared_ptr<autograd::Node>> roots;
  for (const Tensor& result : results) {
    if (!result.requires_grad()) continue;
    roots.push_back(autograd::gradient_edge(result).node);
    open.push_back(roots.back().get());
  }
  while (!open.empty()) {
    const autograd::Node* const node = open.back();
    open.pop_back();
    if (node == nullptr || !seen.insert(node).second) continue;
    // Leaves, and other variables on the same data, are no ops.
    if (node->name() != "accumulate_grad" && node->name() != "variable") recorded_.insert(std::string(node->name()));
    for (const autograd::Edge& edge : node->edges()) open.push_back(edge.node.get());
  }
}

void MadeOf::record(const Case& op) {
  size_t recorded = 0;
  for (const bool two_dtypes : {false, true}) {
    std::vector<Tensor> inputs = op.tensors;
    recorded = 0;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].defined() || !is_floating(inputs[i].dtype())) continue;
      inputs[i] = inputs[i].detach();
      if (two_dtypes && recorded == 0) inputs[i] = inputs[i].to(DType::float32);
      inputs[i].requires_grad_();
      ++recorded;
    }
    if (two_dtypes && recorded < 2) return;
    try {
      collect(op.call(inputs));
    } catch (const Error&) {
      ASSERT_TRUE(two_dtypes) << op.name << " refuses its sample";
    }
  }
}

void MadeOf::check() const {
  std::set<std::string> named;
  for (const auto& [call, recorded] : calls_) {
    named.insert(recorded.begin(), recorded.end());
    bool any = false;
    for (const std::string& op : recorded) any = any || recorded_.contains(op);
    EXPECT_TRUE(any) << "the entry names " << call << ", which no sample calls on a recorded tensor";
  }
  for (const std::string& op : recorded_)
    EXPECT_TRUE(named.contains(op)) << "it calls " << op << ", and the entry names nothing that does";
}

}  // namespace deckle::suite
