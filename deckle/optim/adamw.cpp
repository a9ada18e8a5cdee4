#include "deckle/optim/adamw.h"

#include "deckle/autograd/grad_mode.h"
#include "deckle/base/check.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/foreach.h"

namespace deckle::optim {

AdamW::AdamW(std::vector<Tensor> parameters, const AdamWOptions& options)
    : parameters_(std::move(parameters)), options_(options), averages_(parameters_.zeros()), squares_(parameters_.zeros()) {
  check(options.beta1 >= 0 && options.beta1 < 1 && options.beta2 >= 0 && options.beta2 < 1,
        "AdamWOptions: beta1 {}, beta2 {} (expected from 0 to below 1)", options.beta1, options.beta2);
  check(options.epsilon > 0 && options.weight_decay >= 0, "AdamWOptions: epsilon {}, weight_decay {} (expected above 0, and 0 or more)", options.epsilon,
        options.weight_decay);
}

void AdamW::step() {
  const NoGrad no_grad;
  const std::vector<size_t> indices = parameters_.with_gradient();
  ++steps_;
  if (indices.empty()) return;
  foreach_adamw_(pick(parameters_.all(), indices), gradients_of(parameters_.all(), indices), pick(averages_, indices), pick(squares_, indices), options_.lr,
                 options_.beta1, options_.beta2, options_.epsilon, options_.weight_decay, steps_);
}

std::map<std::string, Tensor> AdamW::state() const {
  std::map<std::string, Tensor> state;
  state["steps"] = full({}, steps_, DType::int64);
  put_state(state, "average", averages_);
  put_state(state, "square", squares_);
  return state;
}

void AdamW::load_state(const std::map<std::string, Tensor>& state) {
  const auto steps = state.find("steps");
  check(steps != state.end() && steps->second.numel() == 1, "the optimizer's state has no \"steps\"");
  check(state.size() == 1 + averages_.size() + squares_.size(), "the optimizer's state has {} tensors (expected {})", state.size(),
        1 + averages_.size() + squares_.size());
  take_state(state, "average", averages_);
  take_state(state, "square", squares_);
  steps_ = steps->second.item<int64_t>();
}

}  // namespace deckle::optim
