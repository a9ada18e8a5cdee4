// From what the ops hand over (views on packed rows and a plan) to the kernel that the plan chose.

#include <algorithm>
#include <cstring>
#include <vector>

#include "deckle/kernels/args/attention_served.h"
#include "deckle/kernels/args/attention_views.h"
#include "deckle/kernels/cpu/attention/attention.h"
#include "deckle/kernels/cpu/attention/reference.h"

namespace deckle::kernels::cpu {
namespace {

/// Padding does not affect the result: rows of k and v behind the keys of their sequence, and a bias's elements for rows and
/// keys that a sequence lacks. Their gradients are zeros, which the passes do not write.
void clear_unreached(const AttentionProblem& problem, const AttentionInputsView& gradient) {
  const View& bias = gradient.bias;
  const auto clear = [](const View& view, int64_t first, int64_t count) {
    if (view.data == nullptr || view.sizes[0] == 0) return;
    const int64_t item = item_size(view.dtype), bytes = view.numel() / view.sizes[0] * item;
    for (int64_t row = first; row < first + count; ++row)
      std::memset(static_cast<char*>(view.data) + row * view.strides[0] * item, 0, static_cast<size_t>(bytes));
  };
  for (int64_t b = 0; b < problem.sequences; ++b) {
    const int64_t first = problem.k_offsets[b] + problem.keys(b), spare = problem.k_offsets[b + 1] - first;
    if (spare > 0 && attention_rows(gradient.k).data != nullptr) clear(gradient.k, first, spare);
    if (spare > 0 && attention_rows(gradient.v).data != nullptr) clear(gradient.v, first, spare);
  }
  const bool dense_bias = bias.defined && bias.ndim == 4;
  if (dense_bias && !sequences_reach(problem, bias)) clear(bias, 0, bias.sizes[0]);
}

/// Whether the reference runs the pass, which is counted for the kernel that does.
bool by_reference(const Plan& plan, AttentionPass pass) {
  const AttentionKernel kernel = plan->kernels[static_cast<size_t>(pass)];
  count_served(pass, kernel);
  return kernel == AttentionKernel::reference;
}

}  // namespace

void attention_forward(const Context& context, const AttentionInputsView& x, const Plan& plan, const AttentionOutputsView& y) {
  const AttentionProblem& problem = plan->problem;
  if (by_reference(plan, AttentionPass::forward))
    return reference::attention_forward(problem, attention_operands(problem, x), attention_results(y));
  attention_forward(context, problem, attention_operands(problem, x), attention_results(y));
}

void attention_backward(const Context& context, const AttentionOutputsView& y_gradient, const AttentionInputsView& x,
                        const AttentionOutputsView& y, const Plan& plan, const std::vector<bool>&,
                        const AttentionInputsView& x_gradient) {
  const AttentionProblem& problem = plan->problem;
  const AttentionOperands operand = attention_operands(problem, x), gradient = attention_operands(problem, x_gradient);
  clear_unreached(problem, x_gradient);
  if (by_reference(plan, AttentionPass::backward))
    return reference::attention_backward(problem, operand, attention_results(y_gradient), gradient);
  attention_backward(context, problem, operand, attention_results(y), attention_results(y_gradient), gradient);
}

void attention_jvp(const Context& context, const AttentionInputsView& x_tangent, const AttentionInputsView& x, const Plan& plan,
                   const AttentionOutputsView& y_tangent) {
  const AttentionProblem& problem = plan->problem;
  const AttentionOperands operand = attention_operands(problem, x), tangent = attention_operands(problem, x_tangent);
  if (by_reference(plan, AttentionPass::jvp))
    return reference::attention_jvp(problem, operand, tangent, {}, attention_results(y_tangent));
  attention_jvp(context, problem, operand, tangent, {}, attention_results(y_tangent));
}

void attention_second(const Context& context, const AttentionInputsView& x_tangent, const AttentionInputsView& x,
                      const AttentionOutputsView& y, const AttentionOutputsView& y_gradient,
                      const AttentionOutputsView& y_gradient_tangent, const Plan& plan, const std::vector<bool>& x_wanted,
                      const std::vector<bool>&, const AttentionInputsView& x_gradient, const AttentionOutputsView& y_tangent) {
  const AttentionProblem& problem = plan->problem;
  const AttentionOperands operand = attention_operands(problem, x), tangent = attention_operands(problem, x_tangent),
                          gradient = attention_operands(problem, x_gradient);
  const AttentionResults cotangent = attention_results(y_gradient), cotangent_tangent = attention_results(y_gradient_tangent),
                         moved = attention_results(y_tangent);
  clear_unreached(problem, x_gradient);
  if (by_reference(plan, AttentionPass::second)) {
    reference::attention_second(problem, operand, tangent, cotangent, cotangent_tangent, gradient);
    return reference::attention_jvp(problem, operand, tangent, {}, moved);
  }
  if (std::none_of(x_wanted.begin(), x_wanted.end(), [](bool want) { return want; }))
    return attention_jvp(context, problem, operand, tangent, {}, moved);
  attention_second(context, problem, operand, tangent, attention_results(y), cotangent, cotangent_tangent, gradient, moved);
}

void attention_mixed(const Context& context, const AttentionInputsView& first, const AttentionInputsView& second,
                     const AttentionInputsView& both, const AttentionInputsView& x, const Plan& plan,
                     const AttentionOutputsView& y_mixed) {
  const AttentionProblem& problem = plan->problem;
  const auto of = [&](const AttentionInputsView& view) { return attention_operands(problem, view); };
  if (by_reference(plan, AttentionPass::mixed))
    return reference::attention_mixed(problem, of(x), of(first), of(second), of(both), attention_results(y_mixed));
  attention_mixed(context, problem, of(x), of(first), of(second), of(both), attention_results(y_mixed));
}

}  // namespace deckle::kernels::cpu
