#include "deckle/attention/attention.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "deckle/attention/candidates.h"
#include "deckle/attention/mask_node.h"
#include "deckle/attention/padded.h"
#include "deckle/attention/plan.h"
#include "deckle/autograd/autocast.h"
#include "deckle/base/check.h"
#include "deckle/core/cuda/capture.h"
#include "deckle/core/kept.h"
#include "deckle/core/rethrow.h"
#include "deckle/core/shown.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/nested/support.h"
#include "deckle/ops/generated/attention.h"
#include "deckle/ops/generated/shape.h"

namespace deckle {
namespace {

/// Kernels want the head dim contiguous, those of GPUs also halves in pieces of 16 bytes and nothing expanded; other strides are
/// free.
Tensor as_kernels_read(const Tensor& x) {
  if (x.numel() == 0) return x;
  bool fits = x.stride(-1) == 1 || x.size(-1) == 1;
  const bool in_pieces = x.device().is_cuda() && item_size(x.dtype()) == 2;
  for (int64_t dim = 0; in_pieces && dim + 1 < x.dim(); ++dim)
    fits = fits && (x.size(dim) == 1 || (x.stride(dim) > 0 && x.stride(dim) % 8 == 0));
  if (!fits) return contiguous(x);
  return in_pieces && reinterpret_cast<uintptr_t>(address(x)) % 16 != 0 ? contiguous(x.clone()) : x;
}

/// The same shape for the same numbers, as far as they were asked for lately: what devices have of it (core/cuda/mirror.h) is
/// made once, and is there when a graph is recorded.
Ragged equal_lengths(int64_t components, int64_t length, int64_t beside) {
  constexpr int64_t kMostComponents = 1 << 14;
  static const Ragged& kept_with = *new Ragged(Ragged::from_lengths({}));  // leaked: calls may come as late as any
  const auto make = [&] { return Ragged::from_lengths(std::vector<int64_t>(static_cast<size_t>(components), length)); };
  if (components > kMostComponents) return make();
  return kept_shape(*kept_with, "equal lengths", {components, length, beside}, make);
}

/// Packed operands and where their sequences lie.
struct Packed {
  Tensor q, k, v;
  Ragged q_rows, k_rows;
};

std::string shape_string(const Tensor& x) { return to_string(x.sizes()); }
std::string shape_string(const NestedTensor& x) { return nested::shape_string(x); }

template <typename X>
void require_ranks(const X& q, const X& k, const X& v) {
  for (const auto& [argument, x] : {std::pair("q", &q), std::pair("k", &k), std::pair("v", &v)}) {
    check(x->defined(), "{} is undefined (expected 4 dims: batch, rows, heads, head dim)", argument);
    check(x->dim() == 4, "{} has shape {} (expected 4 dims: batch, rows, heads, head dim)", argument, shape_string(*x));
  }
}

/// A bias or boolean mask of a ragged batch may be larger than its longest sequences, as one made for a capacity is; dense
/// operands have one M and one N, and what is larger than these was made for others.
void require_exact_planes(const Tensor& q, const Tensor& k, const AttentionOptions& options) {
  const auto require = [&](const char* argument, const Tensor& plane) {
    for (const int dim : {2, 3}) {
      if (!plane.defined() || plane.dim() != 4) continue;  // what else is wrong is said where planes are read
      const int64_t full = dim == 2 ? q.size(1) : k.size(1);
      check(plane.size(dim) <= std::max<int64_t>(full, 1), "{} has shape {}; dim {} must be 1 or {}", argument, plane.sizes(),
            dim, full);
    }
  };
  require("bias", options.bias);
  visit_mask(options.mask, [&](const AttentionMask::Node& node) {
    if (const auto* boolean = std::get_if<AttentionMask::Node::Boolean>(&node.is)) require("masks::boolean", boolean->allowed);
  });
}

Packed pack(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  require_ranks(q, k, v);
  require_exact_planes(q, k, options);
  check(q.size(0) == k.size(0) && k.size(0) == v.size(0), "q, k and v have {}, {} and {} sequences (expected the same)",
        q.size(0), k.size(0), v.size(0));
  check(k.size(1) == v.size(1), "k has {} rows per sequence, v has {} (expected the same)", k.size(1), v.size(1));
  return {flatten(q, 0, 1), flatten(k, 0, 1), flatten(v, 0, 1), equal_lengths(q.size(0), q.size(1), k.size(1)),
          equal_lengths(k.size(0), k.size(1), q.size(1))};
}

Packed pack(const NestedTensor& q, const NestedTensor& k, const NestedTensor& v, const AttentionOptions&) {
  require_ranks(q, k, v);
  for (const auto& [argument, x] : {std::pair("q", &q), std::pair("k", &k), std::pair("v", &v)}) {
    check(x->ragged_dims() == 1, "{} has {} ragged dims (expected 1, the rows)", argument, x->ragged_dims());
  }
  check(k.ragged() == v.ragged(), "k has {}, v has {} (expected the same)", Shown{k.ragged()}, Shown{v.ragged()});
  return {q.values(), k.values(), v.values(), q.ragged(), k.ragged()};
}

// In the scope of an Autocast attention computes in its dtype, as ops do whose entries say so.
Packed in_scope(const Packed& x, const autograd::Converted& converted) {
  return {converted(x.q), converted(x.k), converted(x.v), x.q_rows, x.k_rows};
}
AttentionOptions in_scope(AttentionOptions options, const autograd::Converted& converted) {
  options.bias = converted(options.bias);
  if (options.ragged_bias.defined())
    options.ragged_bias = NestedTensor::of_op(converted(options.ragged_bias.values()), options.ragged_bias);
  return options;
}

AttentionOutputs planned_attention(const Packed& x, const AttentionOptions& options) {
  const Plan plan = make_attention_plan(x.q, x.k, x.v, x.q_rows, x.k_rows, options);
  const auto dense = [](const Tensor& tensor) { return tensor.defined() ? contiguous(tensor) : tensor; };
  // Expanded dims of a bias stay broadcast.
  const bool readable = options.bias.defined() && options.bias.numel() > 0 && options.bias.stride(-1) <= 1;
  const Tensor bias = options.ragged_bias.defined() ? dense(options.ragged_bias.values())
                      : readable                    ? options.bias
                                                    : dense(options.bias);
  return attention_forward({.q = as_kernels_read(x.q),
                            .k = as_kernels_read(x.k),
                            .v = as_kernels_read(x.v),
                            .bias = bias,
                            .slopes = dense(options.slopes),
                            .sinks = dense(options.sinks),
                            .table = dense(options.table)},
                           plan);
}

/// out [Tq, H, Dv], lse [Tq, H].
AttentionOutputs packed_attention(const Packed& x, const AttentionOptions& options) {
  if (const autograd::Converted converted(autograd::Precision::half); converted)
    return packed_attention(in_scope(x, converted), in_scope(options, converted));
  const PaddedOperands wide = padded_operands(x.q, x.k, x.v, x.k_rows, options);
  const auto [out, lse] = planned_attention({wide.q, wide.k, wide.v, x.q_rows, x.k_rows}, wide.options);
  const int64_t value_dim = x.v.size(2);
  return {out.size(2) == value_dim ? out : contiguous(slice(out, 2, 0, value_dim)), lse};
}

/// The mask and lengths alone: no dropout is drawn.
Plan plan_packed(const Packed& x, AttentionOptions options) {
  if (const autograd::Converted converted(autograd::Precision::half); converted)
    return plan_packed(in_scope(x, converted), in_scope(options, converted));
  options.dropout = 0;
  const Plan plan = make_attention_plan(x.q, x.k, x.v, x.q_rows, x.k_rows, options);
  upload_mask(*plan, x.q.device());
  return plan;
}

std::string explain_packed(const Packed& x, AttentionOptions options) {
  if (const autograd::Converted converted(autograd::Precision::half); converted)
    return explain_packed(in_scope(x, converted), in_scope(options, converted));
  cuda::refuse_in_capture("an explanation of attention");
  Generator unused(0);  // explaining draws no numbers from the caller's
  options.generator = &unused;
  const PaddedOperands wide = padded_operands(x.q, x.k, x.v, x.k_rows, options);
  const Plan plan = make_attention_plan(wide.q, wide.k, wide.v, x.q_rows, x.k_rows, wide.options);
  return explain(attention_request(*plan, wide.options, x.q.device()), device_name(x.q.device()), wide.explanation);
}

Tensor unpack(const Tensor& rows, const Tensor& q) {
  Dims sizes{q.size(0)};
  sizes.push_back(q.size(1));
  for (int64_t dim = 1; dim < rows.dim(); ++dim) sizes.push_back(rows.size(dim));
  return view(rows, sizes);
}
NestedTensor unpack(const Tensor& rows, const NestedTensor& q) { return NestedTensor::of_op(rows, q.ragged()); }

// Each of dense and nested operands.
template <typename X>
Plan plan_of(const X& q, const X& k, const X& v, const AttentionOptions& options) {
  return call_as("attention_plan", {{"q", q}, {"k", k}, {"v", v}}, [&] { return plan_packed(pack(q, k, v, options), options); });
}

template <typename X>
std::pair<X, X> outputs_of(std::string_view op, const X& q, const X& k, const X& v, const AttentionOptions& options) {
  return call_as(op, {{"q", q}, {"k", k}, {"v", v}}, [&]() -> std::pair<X, X> {
    const auto [out, lse] = packed_attention(pack(q, k, v, options), options);
    return {unpack(out, q), unpack(lse, q)};
  });
}

template <typename X>
std::string explanation_of(const X& q, const X& k, const X& v, const AttentionOptions& options) {
  return call_as("explain_attention", {{"q", q}, {"k", k}, {"v", v}},
                 [&] { return explain_packed(pack(q, k, v, options), options); });
}

}  // namespace

Plan attention_plan(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  return plan_of(q, k, v, options);
}
Plan attention_plan(const NestedTensor& q, const NestedTensor& k, const NestedTensor& v, const AttentionOptions& options) {
  return plan_of(q, k, v, options);
}

std::pair<Tensor, Tensor> attention_with_lse(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  return outputs_of("attention_with_lse", q, k, v, options);
}
std::pair<NestedTensor, NestedTensor> attention_with_lse(const NestedTensor& q, const NestedTensor& k, const NestedTensor& v,
                                                         const AttentionOptions& options) {
  return outputs_of("attention_with_lse", q, k, v, options);
}

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  return outputs_of("attention", q, k, v, options).first;
}
NestedTensor attention(const NestedTensor& q, const NestedTensor& k, const NestedTensor& v, const AttentionOptions& options) {
  return outputs_of("attention", q, k, v, options).first;
}

std::string explain_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  return explanation_of(q, k, v, options);
}
std::string explain_attention(const NestedTensor& q, const NestedTensor& k, const NestedTensor& v,
                              const AttentionOptions& options) {
  return explanation_of(q, k, v, options);
}

}  // namespace deckle
