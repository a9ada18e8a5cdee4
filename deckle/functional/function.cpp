#include "deckle/functional/function.h"

#include "deckle/autograd/support.h"
#include "deckle/base/check.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/ops/generated/shape.h"

namespace deckle {
namespace {

using Tensors = Function::Tensors;

/// One derivative for each of `like`, of its shape and dtype, or undefined.
void require_derivatives(const Tensors& given, const Tensors& like, const char* what) {
  check(given.size() == like.size(), "{} {}s were returned (expected {})", given.size(), what, like.size());
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i].defined() || !like[i].defined()) continue;
    check(given[i].sizes() == like[i].sizes() && given[i].dtype() == like[i].dtype(), "{} {} is {} {} (expected {} {})", what, i,
          given[i].sizes(), deckle::name(given[i].dtype()), like[i].sizes(), deckle::name(like[i].dtype()));
  }
}

class FunctionNode final : public autograd::Node {
 public:
  explicit FunctionNode(const Function& function) : function_(function) {}

  std::string_view name() const override { return function_.name; }
  void backward(const autograd::Gradients& gradients, autograd::GradientSink& sink) override {
    const Tensors x = inputs.get(*this), y = results.get(*this);
    Tensors arrived;
    for (size_t i = 0; i < gradients.size(); ++i) arrived.push_back(gradients[i]);
    const Tensors given = function_.backward(x, y, arrived);
    call_as(function_.name, [&] { require_derivatives(given, x, "gradient"); });
    for (size_t i = 0; i < given.size(); ++i) {
      if (sink.wants(i)) sink.put(i, given[i]);
    }
  }
  void release() override {
    inputs.reset();
    results.reset();
  }

  SavedTensors inputs, results;

 private:
  Function function_;
};

/// Results on memory of their own, without history.
Tensors run_forward(const Function& function, const Tensors& inputs) {
  const NoGrad no_grad;
  const autograd::NoLevels no_levels;
  Tensors plain;
  for (const Tensor& input : inputs) plain.push_back(input.defined() ? input.detach() : input);
  Tensors results = function.forward(plain);
  for (Tensor& result : results) {
    check(result.defined(), "forward returned an undefined tensor (expected defined ones)");
    bool shares = false;
    for (const Tensor& input : plain) shares = shares || (input.defined() && input.storage() == result.storage());
    result = shares ? clone(result) : result.detach();
  }
  return results;
}

}  // namespace

Tensors Function::operator()(const Tensors& inputs) const {
  return call_as(name, [&] {
    check(forward && backward, "{} is missing (expected both, forward and backward)", forward ? "backward" : "forward");
    Tensors results = run_forward(*this, inputs);
    if (autograd::records(TensorList(inputs))) {
      auto node = std::make_shared<FunctionNode>(*this);
      node->connect(TensorList(inputs));
      node->inputs.save(TensorList(inputs));
      autograd::attach_all(results, node);
      node->results.save_outputs(results);
    }
    for (const autograd::Level level : autograd::tangent_levels(TensorList(inputs))) {
      check(static_cast<bool>(tangent), "it has no rule for forward mode (expected `tangent`)");
      const Tensors tangents = tangent(autograd::primal(TensorList(inputs), level), autograd::primal(TensorList(results), level),
                                       autograd::tangent(TensorList(inputs), level));
      require_derivatives(tangents, results, "tangent");
      for (size_t i = 0; i < results.size(); ++i) {
        if (is_floating(results[i].dtype())) autograd::set_tangent(results[i], level, tangents[i]);
      }
    }
    return results;
  });
}

}  // namespace deckle
