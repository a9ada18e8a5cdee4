#pragma once

#include "deckle/kernels/args/attention_plan.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/generated/attention.h"

// The passes by the general kernels (general_attention), which serve every problem.

namespace deckle::kernels::cuda {

/// With `wanted`, where the device says 1 if they are to do anything, forward and backward only replace what other kernels have
/// written: they do not count. A graph whose lengths no call had before it is recorded is refused.
void general_forward(const Context& context, const AttentionInputsView& x, const Plan& plan, const AttentionOutputsView& y,
                     const int* wanted = nullptr);
void general_backward(const Context& context, const AttentionOutputsView& y_gradient, const AttentionInputsView& x,
                      const AttentionOutputsView& y, const Plan& plan, const AttentionInputsView& x_gradient,
                      const int* wanted = nullptr);
void general_second(const Context& context, const AttentionInputsView& x_tangent, const AttentionInputsView& x,
                    const AttentionOutputsView& y, const AttentionOutputsView& y_gradient,
                    const AttentionOutputsView& y_gradient_tangent, const Plan& plan, const AttentionInputsView& x_gradient,
                    const AttentionOutputsView& y_tangent);
void general_jvp(const Context& context, const AttentionInputsView& x_tangent, const AttentionInputsView& x, const Plan& plan,
                 const AttentionOutputsView& y_tangent);

}  // namespace deckle::kernels::cuda
