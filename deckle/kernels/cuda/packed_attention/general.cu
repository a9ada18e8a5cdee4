// The ops of attention by the general kernels: forward over forward always, the others where the plan says so.
#include "deckle/kernels/cuda/packed_attention/general.h"

#include <stdexcept>
#include <vector>

#include "deckle/base/error.h"
#include "deckle/core/cuda/capture.h"
#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/error.h"
#include "deckle/core/cuda/graph.h"
#include "deckle/core/cuda/memory.h"
#include "deckle/core/cuda/mirror.h"
#include "deckle/kernels/args/attention_served.h"
#include "deckle/kernels/args/attention_views.h"
#include "deckle/kernels/cuda/general_attention/kernels.h"
#include "deckle/kernels/cuda/packed_attention/dropout_key.h"
#include "deckle/kernels/cuda/packed_attention/offsets.h"
#include "deckle/kernels/cuda/packed_attention/uploads.h"

namespace deckle::kernels::cuda {
namespace {

using deckle::cuda::Block;

/// What a call is told of its lengths, on the device: made once for all layers and passes over one ragged shape, or over the
/// lengths of keys that one plan has. nullptr: nobody keeps them, or they would be made in a recording.
const void* kept_of_lengths(const Context& context, const general::Metadata& metadata, const AttentionProblem& p) {
  constexpr int64_t kKind = -1;  // of keys: others begin with a number of sequences
  const int64_t* const keeper = p.k_lengths != nullptr ? p.k_lengths : p.q_offsets;
  std::vector<int64_t> key = {kKind, p.sequences};
  const auto depends_on = [&](const int64_t* array, int64_t count) {
    key.push_back(array == nullptr ? 0 : array == keeper ? 1 : 2);
    if (key.back() == 2) key.insert(key.end(), array, array + count);
  };
  depends_on(p.q_offsets, p.sequences + 1);
  depends_on(p.k_offsets, p.sequences + 1);
  depends_on(p.q_lengths, p.sequences);
  depends_on(p.k_lengths, p.sequences);
  depends_on(p.bias_offsets, p.sequences);
  return deckle::cuda::made_of(keeper, context.device, key, metadata.size(), [&](void* memory) {
    deckle::cuda::copy_bytes(memory, context.device, metadata.bytes().data(), {}, metadata.size());
  });
}

general::Metadata metadata_of(const AttentionProblem& p, const AttentionInputsView& x) {
  return general::Metadata(p, x.q.sizes[0], x.k.sizes[0]);
}

/// What a call is told of its lengths is on the device, or may be brought there: not while a graph is recorded, whose replays
/// would lack what these kernels have to compute again.
void require_that_lengths_can_be_told(const Context& context, const AttentionInputsView& x, const AttentionProblem& p) {
  if (p.known() && deckle::cuda::capturing() && kept_of_lengths(context, metadata_of(p, x), p) == nullptr)
    deckle::cuda::refuse_in_capture("attention in float32 of lengths that it had not before");
}

/// A call whose metadata are on their way to the device, or made there.
class GeneralCall {
 public:
  GeneralCall(const Context& context, const AttentionInputsView& x, const Plan& plan, const int* wanted = nullptr)
      : context_(context),
        guard_(context.device),
        metadata_(metadata_of(plan->problem, x)),
        uploads_(context.device),
        key_(context, plan->problem.dropout) {
    const AttentionProblem& p = plan->problem;
    use_offsets(context, p);
    const void* memory = p.known() ? kept_of_lengths(context, metadata_, p) : uploads_.take(metadata_.size());
    if (memory == nullptr) memory = uploads_.copy(metadata_.bytes().data(), metadata_.size());
    call_ = metadata_.at(memory, uploads_.kept(p.ranges.bounds, metadata_.bound_count()),
                         uploads_.kept(static_cast<const std::byte*>(p.mask.data), metadata_.mask_bytes()));
    call_.made_key = key_.made();
    call_.wanted = wanted;
    if (!p.known()) run([](const general::Call& call, cudaStream_t stream) { general::list_tasks(call, stream); });
  }
  /// `body(call, stream)`; what the kernels throw is told as this library tells it.
  template <typename Body>
  void run(Body&& body) const {
    try {
      body(call_, deckle::cuda::stream_handle(context_.device));
    } catch (const std::runtime_error& error) {
      deckle::cuda::check_runtime("attention");
      throw Error(ErrorKind::runtime, error.what());
    }
    deckle::cuda::check_launch(context_.device);
  }
  const general::Call& call() const { return call_; }

 private:
  const Context& context_;
  deckle::cuda::DeviceGuard guard_;
  general::Metadata metadata_;
  Uploads uploads_;
  DropoutKey key_;
  general::Call call_;
};

/// The gradients that no sequence reaches are 0: of spare rows behind the keys, and of what a bias has beyond the sequences.
void clear_unreached(const Context& context, const GeneralCall& call, const AttentionProblem& problem,
                     const AttentionOperands& gradient, const AttentionInputsView& views) {
  const View& bias = views.bias;
  if (bias.data != nullptr && bias.defined && bias.ndim == 4 && !sequences_reach(problem, bias))
    deckle::cuda::zero_bytes(bias.data, context.device, bias.numel() * item_size(bias.dtype));
  call.run([&](const general::Call& on_device, cudaStream_t stream) { general::clear_spare(on_device, gradient, stream); });
}

}  // namespace

void general_forward(const Context& context, const AttentionInputsView& x, const Plan& plan, const AttentionOutputsView& y,
                     const int* wanted) {
  if (wanted == nullptr) count_served(AttentionPass::forward, AttentionKernel::general);
  if (wanted != nullptr) require_that_lengths_can_be_told(context, x, plan->problem);
  const GeneralCall call(context, x, plan, wanted);
  call.run([&](const general::Call& c, cudaStream_t stream) {
    general::forward(c, attention_operands(plan->problem, x), attention_results(y), stream);
  });
}

void general_backward(const Context& context, const AttentionOutputsView& y_gradient, const AttentionInputsView& x,
                      const AttentionOutputsView& y, const Plan& plan, const AttentionInputsView& x_gradient, const int* wanted) {
  if (wanted == nullptr) count_served(AttentionPass::backward, AttentionKernel::general);
  const AttentionProblem& p = plan->problem;
  if (wanted != nullptr) require_that_lengths_can_be_told(context, x, p);
  const GeneralCall call(context, x, plan, wanted);
  const AttentionOperands gradient = attention_operands(p, x_gradient);
  clear_unreached(context, call, p, gradient, x_gradient);
  const Block workspace(general::backward_bytes(call.call(), gradient), context.device);
  call.run([&](const general::Call& c, cudaStream_t stream) {
    general::backward(c, attention_operands(p, x), attention_results(y), attention_results(y_gradient), gradient,
                      workspace.as<void>(), stream);
  });
}

void general_jvp(const Context& context, const AttentionInputsView& x_tangent, const AttentionInputsView& x, const Plan& plan,
                 const AttentionOutputsView& y_tangent) {
  count_served(AttentionPass::jvp, AttentionKernel::general);
  const GeneralCall call(context, x, plan);
  const AttentionResults tangent = attention_results(y_tangent);
  call.run([&](const general::Call& c, cudaStream_t stream) {
    general::jvp(c, attention_operands(plan->problem, x), attention_operands(plan->problem, x_tangent),
                 {.rounded_tangent = tangent.out, .lse_tangent = tangent.lse}, stream);
  });
}

void general_second(const Context& context, const AttentionInputsView& x_tangent, const AttentionInputsView& x,
                    const AttentionOutputsView& y, const AttentionOutputsView& y_gradient,
                    const AttentionOutputsView& y_gradient_tangent, const Plan& plan, const AttentionInputsView& x_gradient,
                    const AttentionOutputsView& y_tangent) {
  count_served(AttentionPass::second, AttentionKernel::general);
  const AttentionProblem& p = plan->problem;
  const GeneralCall call(context, x, plan);
  const AttentionOperands gradient = attention_operands(p, x_gradient);
  clear_unreached(context, call, p, gradient, x_gradient);
  const Block workspace(general::second_bytes(call.call(), gradient), context.device);
  call.run([&](const general::Call& c, cudaStream_t stream) {
    general::second(c, attention_operands(p, x), attention_operands(p, x_tangent), attention_results(y),
                    attention_results(y_gradient), attention_results(y_gradient_tangent), gradient, attention_results(y_tangent),
                    workspace.as<void>(), stream);
  });
}

void attention_mixed(const Context& context, const AttentionInputsView& first, const AttentionInputsView& second,
                     const AttentionInputsView& both, const AttentionInputsView& x, const Plan& plan,
                     const AttentionOutputsView& y_mixed) {
  count_served(AttentionPass::mixed, AttentionKernel::general);
  const AttentionProblem& p = plan->problem;
  const GeneralCall call(context, x, plan);
  const Block workspace(general::mixed_bytes(call.call()), context.device);
  call.run([&](const general::Call& c, cudaStream_t stream) {
    general::mixed(c, attention_operands(p, x), attention_operands(p, first), attention_operands(p, second),
                   attention_operands(p, both), attention_results(y_mixed), workspace.as<void>(), stream);
  });
}

}  // namespace deckle::kernels::cuda
