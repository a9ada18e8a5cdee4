#include "deckle/optim/adamw.h"

#include <algorithm>
#include <new>

#include "deckle/autograd/grad_mode.h"
#include "deckle/base/check.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/foreach.h"

namespace deckle::optim {

AdamW::AdamW(std::vector<Tensor> parameters, const AdamWOptions& options)
    : parameters_(std::move(parameters)),
      options_(options),
      averages_(parameters_.zeros()),
      squares_(parameters_.zeros()),
      steps_(parameters_.all().size(), 0) {
  check_lr("AdamWOptions", options.lr);
  check(options.beta1 >= 0 && options.beta1 < 1 && options.beta2 >= 0 && options.beta2 < 1,
        "AdamWOptions: beta1 {}, beta2 {} (expected from 0 to below 1)", options.beta1, options.beta2);
  check(options.epsilon > 0 && options.weight_decay >= 0,
        "AdamWOptions: epsilon {}, weight_decay {} (expected above 0, and 0 or more)", options.epsilon, options.weight_decay);
}

void AdamW::set_lr(double lr) {
  check_lr("AdamW", lr);
  options_.lr = lr;
}

void AdamW::step() try {
  const NoGrad no_grad;
  // One call for all parameters of one count: for all of them, unless some had no gradient at times.
  std::map<int64_t, std::vector<size_t>> by_step;
  for (const size_t i : parameters_.with_gradient()) by_step[steps_[i] + 1].push_back(i);
  for (const auto& [step, indices] : by_step) {
    foreach_adamw_(pick(parameters_.all(), indices), gradients_of(parameters_.all(), indices), pick(averages_, indices),
                   pick(squares_, indices), options_.lr, options_.beta1, options_.beta2, options_.epsilon, options_.weight_decay,
                   step);
    for (const size_t i : indices) steps_[i] = step;
  }
} catch (const std::bad_alloc&) {
  rethrow_from("AdamW");
}

State AdamW::state() const {
  const Tensor steps = zeros({static_cast<int64_t>(steps_.size())}, DType::int64);
  std::copy(steps_.begin(), steps_.end(), steps.data<int64_t>());
  State state{{"steps", steps}};
  put_state(state, "average", averages_);
  put_state(state, "square", squares_);
  return state;
}

void AdamW::load_state(const State& state) {
  check(state.size() == 1 + averages_.size() + squares_.size(), "the optimizer's state has {} tensors (expected {})",
        state.size(), 1 + averages_.size() + squares_.size());
  const std::vector<int64_t> steps =
      find_state(state, "steps", zeros({static_cast<int64_t>(steps_.size())}, DType::int64)).to_vector<int64_t>();
  for (const int64_t step : steps)
    check(step >= 0, "the optimizer's state \"steps\" has the count {} (expected 0 or more)", step);
  const std::vector<Tensor> averages = find_state(state, "average", averages_);
  const std::vector<Tensor> squares = find_state(state, "square", squares_);
  copy_state(averages_, averages);
  copy_state(squares_, squares);
  steps_ = steps;
}

}  // namespace deckle::optim
