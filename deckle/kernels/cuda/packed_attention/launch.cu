// From what the ops of attention hand over (views on packed rows and a plan) to the kernels of kernels/cuda/attention: the one
// that the plan chose, or the portable one where this GPU has no Hopper instructions.
#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "deckle/base/error.h"
#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/error.h"
#include "deckle/core/cuda/memory.h"
#include "deckle/kernels/args/attention_plan.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/generated/attention.h"
#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cuda/attention/backward.h"
#include "deckle/kernels/cuda/attention/forward.h"
#include "deckle/kernels/cuda/attention/portable.h"
#include "deckle/kernels/cuda/packed_attention/general.h"

namespace deckle::kernels::cuda {
namespace {

using deckle::cuda::Block;

/// The rows of a sequence, if all have as many; else -1.
int64_t common_length(const int64_t* offsets, int64_t sequences) {
  const int64_t length = sequences > 0 ? offsets[1] - offsets[0] : 0;
  for (int64_t b = 0; b < sequences; ++b) {
    if (offsets[b + 1] - offsets[b] != length) return -1;
  }
  return length;
}

AttentionTensor tensor_of(const View& view, int64_t length) {
  AttentionTensor tensor;
  if (!view.defined || view.data == nullptr) return tensor;
  tensor.data = view.data;
  tensor.row_stride = view.strides[0];
  tensor.head_stride = view.strides[1];
  tensor.batch_stride = length * view.strides[0];
  return tensor;
}

/// A call as the kernels want it; the offsets of a ragged one are on their way to the device.
class Call {
 public:
  Call(const Context& context, const AttentionInputsView& x, const AttentionPlan& plan)
      : offsets_(offset_bytes(plan.problem), context.device) {
    const AttentionProblem& p = plan.problem;
    const bool dense = is_dense(p);
    const int64_t rows = common_length(p.q_offsets, p.sequences), keys = common_length(p.k_offsets, p.sequences);
    row_length_ = dense ? rows : 0;
    key_length_ = dense ? keys : 0;
    problem_.device = context.device.index;
    problem_.element = p.dtype == DType::float16 ? AttentionElement::f16 : AttentionElement::bf16;
    AttentionSizes& sizes = problem_.sizes;
    sizes.batch = static_cast<int32_t>(p.sequences);
    sizes.heads = static_cast<int32_t>(p.heads);
    sizes.kv_heads = static_cast<int32_t>(p.kv_heads);
    sizes.head_dim = static_cast<int32_t>(p.head_dim);
    sizes.value_dim = static_cast<int32_t>(p.value_dim);
    sizes.query_rows = dense ? rows : x.q.sizes[0];
    sizes.key_rows = dense ? keys : x.k.sizes[0];
    if (!dense) {
      int64_t* const memory = offsets_.as<int64_t>();
      const int64_t bytes = (p.sequences + 1) * static_cast<int64_t>(sizeof(int64_t));
      deckle::cuda::copy_bytes(memory, context.device, p.q_offsets, {}, bytes);
      deckle::cuda::copy_bytes(memory + p.sequences + 1, context.device, p.k_offsets, {}, bytes);
      sizes.query_offsets = memory;
      sizes.key_offsets = memory + p.sequences + 1;
      if (p.k_lengths != nullptr) {
        int64_t* const lengths = memory + 2 * (p.sequences + 1);
        deckle::cuda::copy_bytes(lengths, context.device, p.k_lengths, {}, p.sequences * static_cast<int64_t>(sizeof(int64_t)));
        sizes.key_lengths = lengths;
      }
    }
    const auto bound = [](int64_t width) {
      return width < 0 ? kUnboundedWindow : static_cast<int32_t>(std::min<int64_t>(width, kUnboundedWindow));
    };
    problem_.mask.left = bound(p.window_left);
    problem_.mask.right = p.causal ? std::min(bound(p.window_right), 0) : bound(p.window_right);
    problem_.mask.bottom_right = p.alignment == AttentionAlignment::bottom_right;
    problem_.scale = static_cast<float>(p.scale);
    problem_.soft_cap = static_cast<float>(p.soft_cap);
    problem_.dropout = p.dropout;
    problem_.sinks = x.sinks.defined ? x.sinks.ptr<float>() : nullptr;
    problem_.slopes = x.slopes.defined ? x.slopes.ptr<float>() : nullptr;
    problem_.q = rows_of(x.q);
    problem_.k = keys_of(x.k);
    problem_.v = keys_of(x.v);
  }

  AttentionTensor rows_of(const View& view) const { return tensor_of(view, row_length_); }
  AttentionTensor keys_of(const View& view) const { return tensor_of(view, key_length_); }
  CudaAttentionProblem& problem() { return problem_; }

 private:
  /// Sequences of one length each, all of whose rows are keys.
  static bool is_dense(const AttentionProblem& p) {
    return p.k_lengths == nullptr && common_length(p.q_offsets, p.sequences) >= 0 && common_length(p.k_offsets, p.sequences) >= 0;
  }
  static int64_t offset_bytes(const AttentionProblem& p) {
    return is_dense(p) ? 0 : (3 * p.sequences + 2) * static_cast<int64_t>(sizeof(int64_t));
  }

  Block offsets_;
  int64_t row_length_ = 0, key_length_ = 0;
  CudaAttentionProblem problem_;
};

/// What the kernels throw is told as this library tells it.
template <typename Body>
void told(Body&& body) try {
  body();
} catch (const std::runtime_error& error) {
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

/// Of what is one number for each head: null where it is not given or its gradient is not wanted.
float* gradient_of_heads(const View& of, const View& gradient) {
  return of.defined && gradient.defined && gradient.ndim == 1 && gradient.sizes[0] == of.sizes[0] ? gradient.ptr<float>()
                                                                                                  : nullptr;
}

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
    if (!asks(*plan, AttentionPass::forward, AttentionKernel::hopper) || !attention_forward_why_not(problem).empty())
      return portable_attention_forward(problem, stream);
    const Block workspace(attention_forward_workspace_bytes(problem), context.device);
    problem.workspace = workspace.as<void>();
    problem.workspace_bytes = attention_forward_workspace_bytes(problem);
    attention_forward(problem, stream);
  });
  deckle::cuda::check_launch(context.device);
}

void attention_backward(const Context& context, const AttentionOutputsView& y_gradient, const AttentionInputsView& x,
                        const AttentionOutputsView& y, const Plan& plan, const std::vector<bool>&,
                        const AttentionInputsView& x_gradient) {
  if (asks(*plan, AttentionPass::backward, AttentionKernel::general))
    return general_backward(context, y_gradient, x, y, plan, x_gradient);
  const deckle::cuda::DeviceGuard guard(context.device);
  const View inputs[] = {x_gradient.q, x_gradient.k, x_gradient.v, x_gradient.sinks, x_gradient.slopes};
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
  backward.grad_out = call.rows_of(cotangent);
  backward.grad_lse = y_gradient.lse.defined ? y_gradient.lse.ptr<float>() : nullptr;
  backward.grad_q = call.rows_of(q.view());
  backward.grad_k = call.keys_of(k.view());
  backward.grad_v = call.keys_of(v.view());
  backward.grad_sinks = gradient_of_heads(x.sinks, x_gradient.sinks);
  backward.grad_slopes = gradient_of_heads(x.slopes, x_gradient.slopes);
  const cudaStream_t stream = deckle::cuda::stream_handle(context.device);
  told([&] {
    const bool hopper =
        asks(*plan, AttentionPass::backward, AttentionKernel::hopper) && attention_backward_why_not(backward).empty();
    const int64_t bytes =
        hopper ? attention_backward_workspace_bytes(backward) : portable_attention_backward_workspace_bytes(backward);
    const Block workspace(bytes, context.device);
    backward.problem.workspace = workspace.as<void>();
    backward.problem.workspace_bytes = bytes;
    if (hopper)
      attention_backward(backward, stream);
    else
      portable_attention_backward(backward, stream);
  });
  deckle::cuda::check_launch(context.device);
}

}  // namespace deckle::kernels::cuda
