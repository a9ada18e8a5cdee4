// From what the ops of attention hand over (views on packed rows and a plan) to the kernels of kernels/cuda/attention: the one
// that the plan chose, or the portable one where this GPU has no Hopper instructions.
#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "deckle/base/error.h"
#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/error.h"
#include "deckle/core/cuda/memory.h"
#include "deckle/kernels/args/attention_plan.h"
#include "deckle/kernels/args/attention_served.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/generated/attention.h"
#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cuda/attention/backward.h"
#include "deckle/kernels/cuda/attention/checks.h"
#include "deckle/kernels/cuda/attention/forward.h"
#include "deckle/kernels/cuda/attention/portable.h"
#include "deckle/kernels/cuda/attention/portable_decode.h"
#include "deckle/kernels/cuda/attention/second_backward.h"
#include "deckle/kernels/cuda/attention/split_backward.h"
#include "deckle/kernels/cuda/attention/split_forward.h"
#include "deckle/kernels/cuda/attention/tangent_forward.h"
#include "deckle/kernels/cuda/packed_attention/call.h"
#include "deckle/kernels/cuda/packed_attention/general.h"

namespace deckle::kernels::cuda {
namespace {

using deckle::cuda::Block;

/// What the kernels throw is told as this library tells it.
template <typename Body>
void told(Body&& body) try {
  body();
} catch (const std::runtime_error& error) {
  deckle::cuda::check_runtime("attention");
  throw Error(ErrorKind::runtime, error.what());
}

bool asks(const AttentionPlan& plan, AttentionPass pass, AttentionKernel kernel) {
  return plan.kernels[static_cast<size_t>(pass)] == kernel;
}

/// A gradient in its place, or in memory of its own where it is not wanted: the kernels write all three.
class Gradient {
 public:
  Gradient(const Context& context, const View& gradient, const View& of)
      : wanted_(gradient.defined && gradient.ndim == 3),
        memory_(wanted_ ? 0 : of.numel() * item_size(of.dtype), context.device),
        view_(wanted_ ? gradient : of) {
    if (wanted_) return;
    view_.data = memory_.as<void>();
    view_.strides[2] = 1;
    view_.strides[1] = view_.sizes[2];
    view_.strides[0] = view_.sizes[1] * view_.sizes[2];
  }
  const View& view() const { return view_; }

 private:
  bool wanted_;
  Block memory_;
  View view_;
};

/// A contiguous tensor of halves from 16 bytes on, where kernels of tensor cores read it: a copy if it begins elsewhere, as the
/// gradient that arrives through a part of a larger tensor may.
class Aligned {
 public:
  Aligned(const Context& context, const View& view)
      : copied_(reinterpret_cast<uintptr_t>(view.data) % 16 != 0 && item_size(view.dtype) == 2),
        memory_(copied_ ? view.numel() * item_size(view.dtype) : 0, context.device),
        view_(view) {
    if (!copied_) return;
    view_.data = memory_.as<void>();
    deckle::cuda::copy_bytes(view_.data, context.device, view.data, context.device, view.numel() * item_size(view.dtype));
  }
  const View& view() const { return view_; }

 private:
  bool copied_;
  Block memory_;
  View view_;
};

/// Whether an input is given and its gradient wanted, which has its shape then.
bool wanted(const View& of, const View& gradient) {
  return of.defined && gradient.defined && gradient.ndim == of.ndim && gradient.numel() == of.numel() && of.numel() > 0;
}

/// Scratch for one launch.
class Workspace {
 public:
  Workspace(CudaAttentionProblem& problem, int64_t bytes, const Context& context) : memory_(bytes, context.device) {
    problem.workspace = memory_.as<void>();
    problem.workspace_bytes = bytes;
  }

 private:
  Block memory_;
};

float* gradient_of_heads(const View& of, const View& gradient) { return wanted(of, gradient) ? gradient.ptr<float>() : nullptr; }

}  // namespace

void attention_forward(const Context& context, const AttentionInputsView& x, const Plan& plan, const AttentionOutputsView& y) {
  if (asks(*plan, AttentionPass::forward, AttentionKernel::general)) return general_forward(context, x, plan, y);
  if (plan->problem.sequences == 0 || y.out.numel() == 0) return;
  const deckle::cuda::DeviceGuard guard(context.device);
  Call call(context, x, *plan);
  CudaAttentionProblem& problem = call.problem();
  problem.out = call.rows_of(y.out);
  problem.lse = y.lse.ptr<float>();
  const cudaStream_t stream = deckle::cuda::stream_handle(context.device);
  told([&] {
    if (plan->problem.dtype == DType::float32) {
      if (!split_attention_forward_why_not(problem).empty()) return general_forward(context, x, plan, y);
      const Workspace workspace(problem, split_attention_forward_workspace_bytes(problem), context);
      count_served(AttentionPass::forward, AttentionKernel::hopper);
      const int* const unsuited = split_attention_forward(problem, stream);
      if (unsuited == nullptr) return;
      return general_forward(context, x, plan, y, unsuited);
    }
    if (asks(*plan, AttentionPass::forward, AttentionKernel::decode) && attention_decode_why_not(problem).empty()) {
      const Workspace workspace(problem, attention_decode_workspace_bytes(problem), context);
      count_served(AttentionPass::forward, AttentionKernel::decode);
      return attention_decode(problem, stream);
    }
    const bool hopper =
        asks(*plan, AttentionPass::forward, AttentionKernel::hopper) && attention_forward_why_not(problem).empty();
    count_served(AttentionPass::forward, hopper ? AttentionKernel::hopper : AttentionKernel::portable);
    if (!hopper) return portable_attention_forward(problem, stream);
    problem.plan = call.shared_lists(plan->problem, stream);
    const Workspace workspace(problem, attention_forward_workspace_bytes(problem), context);
    attention_forward(problem, stream);
  });
  deckle::cuda::check_launch(context.device);
}

void attention_jvp(const Context& context, const AttentionInputsView& x_tangent, const AttentionInputsView& x, const Plan& plan,
                   const AttentionOutputsView& y_tangent) {
  const auto generally = [&] { general_jvp(context, x_tangent, x, plan, y_tangent); };
  if (!asks(*plan, AttentionPass::jvp, AttentionKernel::hopper) || plan->problem.sequences == 0 || !y_tangent.out.defined ||
      y_tangent.out.numel() == 0)
    return generally();
  const deckle::cuda::DeviceGuard guard(context.device);
  Call call(context, x, *plan);
  AttentionTangent tangent{call.problem(), call.rows_of(x_tangent.q), call.keys_of(x_tangent.k), call.keys_of(x_tangent.v)};
  tangent.problem.out = call.rows_of(y_tangent.out);
  tangent.problem.lse = y_tangent.lse.defined ? y_tangent.lse.ptr<float>() : nullptr;
  if (!tangent_attention_why_not(tangent).empty()) return generally();
  count_served(AttentionPass::jvp, AttentionKernel::hopper);
  told([&] {
    const Workspace workspace(tangent.problem, tangent_attention_workspace_bytes(tangent), context);
    tangent_attention(tangent, deckle::cuda::stream_handle(context.device));
  });
  deckle::cuda::check_launch(context.device);
}

void attention_second(const Context& context, const AttentionInputsView& x_tangent, const AttentionInputsView& x,
                      const AttentionOutputsView& y, const AttentionOutputsView& y_gradient,
                      const AttentionOutputsView& y_gradient_tangent, const Plan& plan, const std::vector<bool>& x_wanted,
                      const std::vector<bool>&, const AttentionInputsView& x_gradient, const AttentionOutputsView& y_tangent) {
  if (std::none_of(x_wanted.begin(), x_wanted.end(), [](bool want) { return want; }))
    return attention_jvp(context, x_tangent, x, plan, y_tangent);
  const auto generally = [&] {
    general_second(context, x_tangent, x, y, y_gradient, y_gradient_tangent, plan, x_gradient, y_tangent);
  };
  if (!asks(*plan, AttentionPass::second, AttentionKernel::hopper) || plan->problem.sequences == 0 || y.out.numel() == 0 ||
      !y_gradient.out.defined || y_gradient.out.data == nullptr)
    return generally();
  const deckle::cuda::DeviceGuard guard(context.device);
  Call call(context, x, *plan);
  // The results of forward mode, which second order reads.
  const Gradient out_tangent(context, y_tangent.out, y.out);
  const bool wants_lse = y_tangent.lse.defined && y_tangent.lse.data != nullptr;
  const Block own_lse(wants_lse ? 0 : y.lse.numel() * int64_t{sizeof(float)}, context.device);
  AttentionTangent tangent{call.problem(), call.rows_of(x_tangent.q), call.keys_of(x_tangent.k), call.keys_of(x_tangent.v)};
  tangent.problem.out = call.rows_of(out_tangent.view());
  tangent.problem.lse = wants_lse ? y_tangent.lse.ptr<float>() : own_lse.as<float>();
  AttentionSecond second;
  second.problem = call.problem();
  second.problem.out = call.rows_of(y.out);
  second.problem.lse = y.lse.ptr<float>();
  second.q = tangent.q, second.k = tangent.k, second.v = tangent.v;
  second.out = tangent.problem.out;
  second.lse_tangent = tangent.problem.lse;
  second.grad_out = call.rows_of(y_gradient.out);
  second.grad_out_tangent = call.rows_of(y_gradient_tangent.out);
  second.grad_lse = y_gradient.lse.defined ? y_gradient.lse.ptr<float>() : nullptr;
  second.grad_lse_tangent = y_gradient_tangent.lse.defined ? y_gradient_tangent.lse.ptr<float>() : nullptr;
  second.grad_q = call.rows_of(x_gradient.q);
  second.grad_k = call.keys_of(x_gradient.k);
  second.grad_v = call.keys_of(x_gradient.v);
  if (!tangent_attention_why_not(tangent).empty() || !second_attention_why_not(second).empty()) return generally();
  count_served(AttentionPass::second, AttentionKernel::hopper);
  told([&] {
    const cudaStream_t stream = deckle::cuda::stream_handle(context.device);
    const Workspace of_tangent(tangent.problem, tangent_attention_workspace_bytes(tangent), context);
    tangent_attention(tangent, stream);
    const Workspace workspace(second.problem, second_attention_workspace_bytes(second), context);
    second_attention(second, stream);
  });
  deckle::cuda::check_launch(context.device);
}

void attention_backward(const Context& context, const AttentionOutputsView& y_gradient, const AttentionInputsView& x,
                        const AttentionOutputsView& y, const Plan& plan, const std::vector<bool>&,
                        const AttentionInputsView& x_gradient) {
  if (asks(*plan, AttentionPass::backward, AttentionKernel::general))
    return general_backward(context, y_gradient, x, y, plan, x_gradient);
  const deckle::cuda::DeviceGuard guard(context.device);
  const View inputs[] = {x_gradient.q,      x_gradient.k,    x_gradient.v,    x_gradient.sinks,
                         x_gradient.slopes, x_gradient.bias, x_gradient.table};
  if (plan->problem.sequences == 0 || y.out.numel() == 0) {
    for (const View& gradient : inputs) {
      if (gradient.data != nullptr)
        deckle::cuda::zero_bytes(gradient.data, context.device, gradient.numel() * item_size(gradient.dtype));
    }
    return;
  }
  Call call(context, x, *plan);
  const Gradient q(context, x_gradient.q, x.q), k(context, x_gradient.k, x.k), v(context, x_gradient.v, x.v);
  AttentionBackward backward;
  backward.problem = call.problem();
  backward.problem.out = call.rows_of(y.out);
  backward.problem.lse = y.lse.ptr<float>();
  const bool given = y_gradient.out.defined && y_gradient.out.data != nullptr;
  const Block zeros(given ? 0 : y.out.numel() * item_size(y.out.dtype), context.device);
  View cotangent = given ? y_gradient.out : y.out;
  if (!given) {
    cotangent.data = zeros.as<void>();
    deckle::cuda::zero_bytes(cotangent.data, context.device, y.out.numel() * item_size(y.out.dtype));
  }
  const Aligned grad_out(context, cotangent);
  backward.grad_out = call.rows_of(grad_out.view());
  backward.grad_lse = y_gradient.lse.defined ? y_gradient.lse.ptr<float>() : nullptr;
  backward.grad_q = call.rows_of(q.view());
  backward.grad_k = call.keys_of(k.view());
  backward.grad_v = call.keys_of(v.view());
  backward.grad_sinks = gradient_of_heads(x.sinks, x_gradient.sinks);
  backward.grad_slopes = gradient_of_heads(x.slopes, x_gradient.slopes);
  backward.grad_table = gradient_of_heads(x.table, x_gradient.table);
  if (wanted(x.bias, x_gradient.bias)) backward.grad_bias = call.gradient_of_bias(x_gradient.bias);
  const cudaStream_t stream = deckle::cuda::stream_handle(context.device);
  told([&] {
    if (plan->problem.dtype == DType::float32) {
      if (!wanted(x.q, x_gradient.q)) backward.grad_q = {};
      if (!wanted(x.k, x_gradient.k)) backward.grad_k = {};
      if (!wanted(x.v, x_gradient.v)) backward.grad_v = {};
      if (!split_attention_backward_why_not(backward).empty())
        return general_backward(context, y_gradient, x, y, plan, x_gradient);
      const Workspace workspace(backward.problem, split_attention_backward_workspace_bytes(backward), context);
      count_served(AttentionPass::backward, AttentionKernel::hopper);
      const int* const unsuited = split_attention_backward(backward, stream);
      if (unsuited == nullptr) return;
      return general_backward(context, y_gradient, x, y, plan, x_gradient, unsuited);
    }
    const bool hopper =
        asks(*plan, AttentionPass::backward, AttentionKernel::hopper) && attention_backward_why_not(backward).empty();
    count_served(AttentionPass::backward, hopper ? AttentionKernel::hopper : AttentionKernel::portable);
    if (hopper) backward.problem.plan = call.shared_lists(plan->problem, stream);
    const Workspace workspace(
        backward.problem,
        hopper ? attention_backward_workspace_bytes(backward) : portable_attention_backward_workspace_bytes(backward), context);
    if (hopper)
      attention_backward(backward, stream);
    else
      portable_attention_backward(backward, stream);
  });
  deckle::cuda::check_launch(context.device);
}

}  // namespace deckle::kernels::cuda
