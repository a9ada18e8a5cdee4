#include "deckle/kernels/cuda/packed_attention/call.h"

#include <algorithm>
#include <vector>

#include "deckle/kernels/cuda/attention/plan.h"
#include "deckle/kernels/cuda/packed_attention/offsets.h"

namespace deckle::kernels::cuda {
namespace {

/// The rows of a sequence, if all have as many; else -1.
int64_t common_length(const int64_t* offsets, int64_t sequences) {
  const int64_t length = sequences > 0 ? offsets[1] - offsets[0] : 0;
  for (int64_t b = 0; b < sequences; ++b) {
    if (offsets[b + 1] - offsets[b] != length) return -1;
  }
  return length;
}

/// Sequences of one length each, all of whose rows are keys, and no bias that lies sequence by sequence: as the plan has it.
bool is_dense(const AttentionProblem& p) {
  return p.known() && p.k_lengths == nullptr && p.bias_offsets == nullptr && common_length(p.q_offsets, p.sequences) >= 0 &&
         common_length(p.k_offsets, p.sequences) >= 0;
}

}  // namespace

Call::Call(const Context& context, const AttentionInputsView& x, const AttentionPlan& plan)
    : context_(context), uploads_(context.device), dropout_key_(context, plan.problem.dropout) {
  const AttentionProblem& p = plan.problem;
  use_offsets(context, p);
  const bool dense = is_dense(p);
  row_length_ = dense ? common_length(p.q_offsets, p.sequences) : 0;
  key_length_ = dense ? common_length(p.k_offsets, p.sequences) : 0;
  problem_.device = context.device.index;
  problem_.element = p.dtype == DType::float16 ? AttentionElement::f16 : AttentionElement::bf16;
  AttentionSizes& sizes = problem_.sizes;
  sizes.batch = static_cast<int32_t>(p.sequences);
  sizes.heads = static_cast<int32_t>(p.heads);
  sizes.kv_heads = static_cast<int32_t>(p.kv_heads);
  sizes.head_dim = static_cast<int32_t>(p.head_dim);
  sizes.value_dim = static_cast<int32_t>(p.value_dim);
  sizes.query_rows = dense ? row_length_ : x.q.sizes[0];
  sizes.key_rows = dense ? key_length_ : x.k.sizes[0];
  if (!dense) {
    for (int64_t b = 0; b < p.sequences; ++b) {
      sizes.most_queries = std::max(sizes.most_queries, static_cast<int32_t>(p.rows(b)));
      sizes.most_keys = std::max(sizes.most_keys, static_cast<int32_t>(p.keys(b)));
    }
    sizes.query_offsets = p.known() ? uploads_.kept(p.q_offsets, p.sequences + 1) : p.device_q_offsets;
    sizes.key_offsets = p.known() ? uploads_.kept(p.k_offsets, p.sequences + 1) : p.device_k_offsets;
    sizes.key_lengths = uploads_.kept(p.k_lengths, p.sequences);
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
  problem_.dropout_key = dropout_key_.made();
  problem_.sinks = x.sinks.defined ? x.sinks.ptr<float>() : nullptr;
  problem_.slopes = x.slopes.defined ? x.slopes.ptr<float>() : nullptr;
  if (x.bias.defined) bias_offsets_ = uploads_.kept(p.bias_offsets, p.sequences);
  problem_.bias = plane_of(x.bias, bias_offsets_);
  problem_.bias_before_cap = p.bias_before_cap;
  if (x.table.defined) {
    problem_.table = x.table.ptr<float>();
    problem_.table_reach = p.table_reach;
  }
  if (p.ranges.bounds != nullptr && x.q.sizes[0] > 0)
    problem_.ranges = {uploads_.kept(p.ranges.bounds, 2 * x.q.sizes[0] * p.ranges.count), p.ranges.count};
  if (p.mask.data != nullptr) problem_.forbidden = bytes_of(p);
  problem_.q = rows_of(x.q);
  problem_.k = keys_of(x.k);
  problem_.v = keys_of(x.v);
}

const void* Call::shared_lists(const AttentionProblem& p, cudaStream_t stream) const {
  const AttentionSizes& sizes = problem_.sizes;
  if (!sizes.ragged() || !p.known()) return nullptr;
  std::vector<int64_t> key = {sizes.batch,
                              sizes.heads,
                              sizes.kv_heads,
                              sizes.head_dim,
                              sizes.value_dim,
                              sizes.query_rows,
                              sizes.key_rows,
                              problem_.mask.left,
                              problem_.mask.right,
                              problem_.mask.bottom_right,
                              static_cast<int64_t>(problem_.element),
                              attention_plan_kind(problem_)};
  const bool lengths = p.k_lengths != nullptr;
  if (lengths) key.insert(key.end(), p.q_offsets, p.q_offsets + p.sequences + 1);
  if (lengths || p.q_offsets != p.k_offsets) key.insert(key.end(), p.k_offsets, p.k_offsets + p.sequences + 1);
  return deckle::cuda::made_of(lengths ? p.k_lengths : p.q_offsets, context_.device, key, attention_plan_bytes(problem_),
                               [&](void* memory) { attention_make_plan(problem_, memory, stream); });
}

AttentionTensor Call::tensor_of(const View& view, int64_t length) {
  AttentionTensor tensor;
  if (!view.defined || view.data == nullptr) return tensor;
  tensor.data = view.data;
  tensor.row_stride = view.strides[0];
  tensor.head_stride = view.strides[1];
  tensor.batch_stride = length * view.strides[0];
  return tensor;
}

CudaAttentionPlane Call::plane_of(const View& view, const int64_t* offsets) {
  CudaAttentionPlane plane;
  if (!view.defined || view.data == nullptr) return plane;
  plane.data = view.data;
  plane.offsets = offsets;
  if (offsets != nullptr) {
    plane.sequence_stride = plane.row_stride = plane.column_stride = 1;
    plane.elements = view.numel();
    return plane;
  }
  const auto stride = [&](int dim) { return view.sizes[dim] == 1 ? int64_t{0} : view.strides[dim]; };
  plane.sequence_stride = stride(0);
  plane.head_stride = stride(1);
  plane.row_stride = stride(2);
  plane.column_stride = stride(3);
  plane.rows = static_cast<int32_t>(view.sizes[2]);
  plane.columns = static_cast<int32_t>(view.sizes[3]);
  return plane;
}

CudaAttentionPlane Call::bytes_of(const AttentionProblem& p) {
  CudaAttentionPlane plane;
  int64_t rows = 1, columns = 1;
  for (int64_t b = 0; b < p.sequences; ++b) rows = std::max(rows, p.rows(b)), columns = std::max(columns, p.keys(b));
  plane.sequence_stride = p.mask.sequence_stride;
  plane.head_stride = p.mask.head_stride;
  plane.row_stride = p.mask.row_stride;
  plane.column_stride = p.mask.column_stride;
  plane.rows = static_cast<int32_t>(rows);
  plane.columns = static_cast<int32_t>(columns);
  const int64_t last = (std::max<int64_t>(p.sequences, 1) - 1) * plane.sequence_stride + (p.heads - 1) * plane.head_stride +
                       (rows - 1) * plane.row_stride + (columns - 1) * plane.column_stride;
  plane.data = const_cast<uint8_t*>(uploads_.kept(static_cast<const uint8_t*>(p.mask.data), last + 1));
  return plane;
}

}  // namespace deckle::kernels::cuda
