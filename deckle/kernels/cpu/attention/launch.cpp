// From what the ops hand over (views on packed rows and a plan) to the kernel that the plan chose.

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "deckle/kernels/args/attention_plan.h"
#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cpu/attention/attention.h"
#include "deckle/kernels/cpu/attention/reference.h"

namespace deckle::kernels::cpu {
namespace {

/// [T, heads, dim] with unit stride along dim; nothing for a tensor that was not given or has no elements.
AttentionRows rows(const View& view) {
  if (!view.defined || view.ndim != 3) return {};
  return {view.data, view.strides[0], view.strides[1]};
}

/// [B, H, M, N], each or 1, or the packed values of a ragged bias; dims of size 1 are broadcast.
AttentionPlane plane(const View& view, const AttentionProblem& problem) {
  if (!view.defined || view.data == nullptr) return {};
  if (problem.bias_offsets != nullptr) return {view.data, 1, 0, 1, 1};
  const auto stride = [&](int dim) { return view.sizes[dim] == 1 ? int64_t{0} : view.strides[dim]; };
  return {view.data, stride(0), stride(1), stride(2), stride(3)};
}

void* data(const View& view) { return view.defined ? view.data : nullptr; }

AttentionOperands operands(const AttentionProblem& problem, const View& q, const View& k, const View& v, const View& bias,
                           const View& slopes, const View& sinks, const View& table) {
  return {rows(q), rows(k), rows(v), plane(bias, problem), data(slopes), data(sinks), data(table)};
}

AttentionResults results(const View& out, const View& lse) { return {rows(out), data(lse)}; }

/// The spare rows of k and v, behind the keys of their sequence, have no part in the result, nor what a bias has for rows and
/// keys that a sequence has not: their gradients are 0, which the passes do not write.
void clear_unreached(const AttentionProblem& problem, const View& k_gradient, const View& v_gradient, const View& bias_gradient) {
  const auto clear = [](const View& view, int64_t first, int64_t count) {
    const int64_t bytes = view.strides[0] * item_size(view.dtype);
    if (view.data != nullptr) std::memset(static_cast<char*>(view.data) + first * bytes, 0, static_cast<size_t>(count * bytes));
  };
  bool bias_reached = problem.sequences > 0;
  for (int64_t b = 0; b < problem.sequences; ++b) {
    const int64_t first = problem.k_offsets[b] + problem.keys(b), spare = problem.k_offsets[b + 1] - first;
    if (spare > 0 && rows(k_gradient).data != nullptr) clear(k_gradient, first, spare);
    if (spare > 0 && rows(v_gradient).data != nullptr) clear(v_gradient, first, spare);
    bias_reached &= bias_gradient.sizes[2] <= std::max<int64_t>(problem.rows(b), 1) &&
                    bias_gradient.sizes[3] <= std::max<int64_t>(problem.keys(b), 1);
  }
  const bool dense_bias = bias_gradient.defined && bias_gradient.ndim == 4;
  if (dense_bias && !bias_reached) clear(bias_gradient, 0, bias_gradient.sizes[0]);
}

bool by_reference(const Plan& plan, AttentionPass pass) {
  return plan->kernels[static_cast<size_t>(pass)] == AttentionKernel::reference;
}

}  // namespace

void attention_forward(const Context& context, const View& q, const View& k, const View& v, const View& bias, const View& slopes,
                       const View& sinks, const View& table, const Plan& plan, const View& out, const View& lse) {
  const AttentionProblem& problem = plan->problem;
  const AttentionOperands x = operands(problem, q, k, v, bias, slopes, sinks, table);
  if (by_reference(plan, AttentionPass::forward)) return reference::attention_forward(problem, x, results(out, lse));
  attention_forward(context, problem, x, results(out, lse));
}

void attention_backward(const Context& context, const View& out_gradient, const View& lse_gradient, const View& q, const View& k,
                        const View& v, const View& bias, const View& slopes, const View& sinks, const View& table,
                        const View& out, const View& lse, const Plan& plan, const std::vector<bool>&, const View& q_gradient,
                        const View& k_gradient, const View& v_gradient, const View& bias_gradient, const View& slopes_gradient,
                        const View& sinks_gradient, const View& table_gradient) {
  const AttentionProblem& problem = plan->problem;
  const AttentionOperands x = operands(problem, q, k, v, bias, slopes, sinks, table);
  const AttentionOperands gradient =
      operands(problem, q_gradient, k_gradient, v_gradient, bias_gradient, slopes_gradient, sinks_gradient, table_gradient);
  const AttentionResults cotangent = results(out_gradient, lse_gradient);
  clear_unreached(problem, k_gradient, v_gradient, bias_gradient);
  if (by_reference(plan, AttentionPass::backward)) return reference::attention_backward(problem, x, cotangent, gradient);
  attention_backward(context, problem, x, results(out, lse), cotangent, gradient);
}

void attention_jvp(const Context& context, const View& q_tangent, const View& k_tangent, const View& v_tangent,
                   const View& bias_tangent, const View& slopes_tangent, const View& sinks_tangent, const View& table_tangent,
                   const View& q, const View& k, const View& v, const View& bias, const View& slopes, const View& sinks,
                   const View& table, const Plan& plan, const View& out_tangent, const View& lse_tangent) {
  const AttentionProblem& problem = plan->problem;
  const AttentionOperands x = operands(problem, q, k, v, bias, slopes, sinks, table);
  const AttentionOperands tangent =
      operands(problem, q_tangent, k_tangent, v_tangent, bias_tangent, slopes_tangent, sinks_tangent, table_tangent);
  if (by_reference(plan, AttentionPass::jvp))
    return reference::attention_jvp(problem, x, tangent, {}, results(out_tangent, lse_tangent));
  attention_jvp(context, problem, x, tangent, {}, results(out_tangent, lse_tangent));
}

void attention_second(const Context& context, const View& q_tangent, const View& k_tangent, const View& v_tangent,
                      const View& bias_tangent, const View& slopes_tangent, const View& sinks_tangent, const View& table_tangent,
                      const View& q, const View& k, const View& v, const View& bias, const View& slopes, const View& sinks,
                      const View& table, const View& out, const View& lse, const View& out_gradient, const View& lse_gradient,
                      const View& out_gradient_tangent, const View& lse_gradient_tangent, const Plan& plan,
                      const std::vector<bool>& wanted, const View& q_gradient, const View& k_gradient, const View& v_gradient,
                      const View& bias_gradient, const View& slopes_gradient, const View& sinks_gradient,
                      const View& table_gradient, const View& out_tangent, const View& lse_tangent) {
  const AttentionProblem& problem = plan->problem;
  const AttentionOperands x = operands(problem, q, k, v, bias, slopes, sinks, table);
  const AttentionOperands tangent =
      operands(problem, q_tangent, k_tangent, v_tangent, bias_tangent, slopes_tangent, sinks_tangent, table_tangent);
  const AttentionResults cotangent = results(out_gradient, lse_gradient),
                         cotangent_tangent = results(out_gradient_tangent, lse_gradient_tangent);
  const AttentionOperands gradient =
      operands(problem, q_gradient, k_gradient, v_gradient, bias_gradient, slopes_gradient, sinks_gradient, table_gradient);
  const AttentionResults moved = results(out_tangent, lse_tangent);
  clear_unreached(problem, k_gradient, v_gradient, bias_gradient);
  if (by_reference(plan, AttentionPass::second)) {
    reference::attention_second(problem, x, tangent, cotangent, cotangent_tangent, gradient);
    return reference::attention_jvp(problem, x, tangent, {}, moved);
  }
  if (std::none_of(wanted.begin(), wanted.begin() + 7, [](bool want) { return want; }))
    return attention_jvp(context, problem, x, tangent, {}, moved);
  attention_second(context, problem, x, tangent, results(out, lse), cotangent, cotangent_tangent, gradient, moved);
}

void attention_mixed(const Context& context, std::span<const View> first, std::span<const View> second,
                     std::span<const View> both, std::span<const View> values, const Plan& plan, const View& out,
                     const View& lse) {
  const AttentionProblem& problem = plan->problem;
  const auto all = [&](std::span<const View> x) { return operands(problem, x[0], x[1], x[2], x[3], x[4], x[5], x[6]); };
  if (by_reference(plan, AttentionPass::mixed))
    return reference::attention_mixed(problem, all(values), all(first), all(second), all(both), results(out, lse));
  attention_mixed(context, problem, all(values), all(first), all(second), all(both), results(out, lse));
}

}  // namespace deckle::kernels::cpu
