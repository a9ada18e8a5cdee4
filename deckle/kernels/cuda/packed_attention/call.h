#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "deckle/kernels/args/attention_cuda.h"
#include "deckle/kernels/args/attention_plan.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/generated/attention.h"
#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cuda/packed_attention/dropout_key.h"
#include "deckle/kernels/cuda/packed_attention/uploads.h"

namespace deckle::kernels::cuda {

/// A call as the kernels want it; the offsets of a ragged one are on the device, or on their way.
class Call {
 public:
  Call(const Context& context, const AttentionInputsView& x, const AttentionPlan& plan);

  AttentionTensor rows_of(const View& view) const { return tensor_of(view, row_length_); }
  AttentionTensor keys_of(const View& view) const { return tensor_of(view, key_length_); }
  CudaAttentionPlane gradient_of_bias(const View& gradient) const { return plane_of(gradient, bias_offsets_); }
  CudaAttentionProblem& problem() { return problem_; }

  /// The lists of tiles, which depend on the lengths alone, made once for all layers and passes over one ragged shape, or a pair
  /// of them, or the lengths of keys that one plan has.
  const void* shared_lists(const AttentionProblem& p, cudaStream_t stream) const;

 private:
  static AttentionTensor tensor_of(const View& view, int64_t length);
  /// A bias, or a gradient of one, as the kernels take it: [B, H, M, N], or the packed values of a ragged one.
  static CudaAttentionPlane plane_of(const View& view, const int64_t* offsets);
  /// The boolean mask, as far as sequences reach into it.
  CudaAttentionPlane bytes_of(const AttentionProblem& p);

  const Context& context_;
  Uploads uploads_;
  DropoutKey dropout_key_;
  const int64_t* bias_offsets_ = nullptr;
  int64_t row_length_ = 0, key_length_ = 0;  // of each sequence of a dense call
  CudaAttentionProblem problem_;
};

}  // namespace deckle::kernels::cuda
