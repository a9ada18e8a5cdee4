// From what the ops hand over (views on packed rows and a plan) to the kernels' own operands.

#include "deckle/base/check.h"
#include "deckle/kernels/args/attention_plan.h"
#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cpu/attention/attention.h"

namespace deckle::kernels::cpu {
namespace {

/// [T, heads, dim] with unit stride along dim.
AttentionRows rows(const View& view) { return {view.data, view.strides[0], view.strides[1]}; }

const AttentionProblem& served(const Plan& plan) {
  const std::string reason = attention_fused_why_not(plan->problem);
  if (!reason.empty()) fail(ErrorKind::not_implemented, "no kernel serves this problem on the CPU: {}", reason);
  return plan->problem;
}

}  // namespace

void attention_forward(const CpuContext& context, const View& q, const View& k, const View& v, const Plan& plan, const View& out,
                       const View& lse) {
  attention_forward(context, served(plan), AttentionOperands{.q = rows(q), .k = rows(k), .v = rows(v)}, AttentionResults{rows(out), lse.data});
}

void attention_backward(const CpuContext& context, const View& out_gradient, const View& lse_gradient, const View& q, const View& k,
                        const View& v, const View& out, const View& lse, const Plan& plan, const View& q_gradient, const View& k_gradient,
                        const View& v_gradient) {
  attention_backward(context, served(plan), AttentionOperands{.q = rows(q), .k = rows(k), .v = rows(v)}, AttentionResults{rows(out), lse.data},
                     AttentionResults{rows(out_gradient), lse_gradient.data},
                     AttentionOperands{.q = rows(q_gradient), .k = rows(k_gradient), .v = rows(v_gradient)});
}

}  // namespace deckle::kernels::cpu
