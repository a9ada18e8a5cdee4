#include "deckle/attention/mask.h"

#include "deckle/attention/mask_node.h"
#include "deckle/base/check.h"
#include "deckle/ops/generated/shape.h"

namespace deckle {
namespace {

using Node = AttentionMask::Node;

template <typename Kind>
AttentionMask make(Kind kind) {
  return AttentionMask(std::make_shared<const Node>(Node{std::move(kind)}));
}

/// A limit beyond any sequence means none; clamped, so that additions to it cannot overflow.
int64_t limit(int64_t keys) { return keys >> 32 == 0 ? keys : -1; }

/// A dense private copy, on the host, which compiles it: a mask must not change between calls, nor between a call and its
/// backward.
Tensor own_copy(const Tensor& x) { return contiguous(x.device().is_cuda() ? x.to(Device{}) : x.clone()); }

NestedTensor ragged_ids(const Tensor& ids) {
  call_as("masks::documents", [&] {
    check(ids.defined(), "the ids are undefined (expected int64 ids [sequences, rows])");
    check(ids.dim() == 2, Argument{"ids"}, "have shape {} (expected [sequences, rows])", ids.sizes());
  });
  return NestedTensor::from_lengths(flatten(ids, 0, 1), std::vector<int64_t>(static_cast<size_t>(ids.size(0)), ids.size(1)));
}

}  // namespace

AttentionMask::AttentionMask() {
  static const auto everything = std::make_shared<const Node>(Node{Node::Full{}});
  node_ = everything;
}

AttentionMask operator&&(const AttentionMask& a, const AttentionMask& b) { return make(Node::And{a, b}); }
AttentionMask operator||(const AttentionMask& a, const AttentionMask& b) { return make(Node::Or{a, b}); }
AttentionMask operator!(const AttentionMask& a) { return make(Node::Not{a}); }

namespace masks {

AttentionMask full() { return {}; }

template <Alignment kAlignment>
Causal<kAlignment>::Causal() : AttentionMask(make(Node::Band{kAlignment, -1, 0})) {}
template class Causal<Alignment::top_left>;
template class Causal<Alignment::bottom_right>;

template <Alignment kAlignment>
Window<kAlignment>::Window(int64_t left, int64_t right)
    : AttentionMask(make(Node::Band{kAlignment, limit(left), limit(right)})) {}
template class Window<Alignment::top_left>;
template class Window<Alignment::bottom_right>;

AttentionMask prefix(int64_t keys) { return prefix(std::span(&keys, 1)); }
AttentionMask prefix(std::span<const int64_t> keys) {
  call_as("masks::prefix", [&] {
    for (const int64_t count : keys) check(count >= 0, "a prefix of {} keys (expected 0 or more)", count);
  });
  return make(Node::Prefix{{keys.begin(), keys.end()}});
}

AttentionMask prefix_lm(int64_t keys) { return prefix(keys) || causal(); }
AttentionMask prefix_lm(std::span<const int64_t> keys) { return prefix(keys) || causal(); }

AttentionMask documents(const Tensor& ids) { return documents(ids, ids); }
AttentionMask documents(const Tensor& q_ids, const Tensor& k_ids) { return documents(ragged_ids(q_ids), ragged_ids(k_ids)); }
AttentionMask documents(const NestedTensor& ids) { return documents(ids, ids); }
AttentionMask documents(const NestedTensor& q_ids, const NestedTensor& k_ids) {
  call_as("masks::documents", [&] {
    for (const NestedTensor* ids : {&q_ids, &k_ids}) {
      check(ids->defined(), "the ids are undefined (expected int64 ids [sequences, rows])");
      check(ids->ragged_dims() == 1 && ids->values().dim() == 1,
            "ids have {} dims, {} of them ragged (expected [sequences, rows], the rows ragged)", ids->dim(), ids->ragged_dims());
      check(ids->dtype() == DType::int64, Argument{"ids"}, "are {} (expected int64)", name(ids->dtype()));
    }
  });
  return make(Node::Documents{{own_copy(q_ids.values()), q_ids.ragged()}, {own_copy(k_ids.values()), k_ids.ragged()}});
}

AttentionMask boolean(const Tensor& allowed) {
  call_as("masks::boolean", [&] {
    check(allowed.defined(), "the mask is undefined (expected bool [batch, heads, rows, keys])");
    check(allowed.dtype() == DType::bool_, "the mask is {} (expected bool; an additive mask goes into AttentionOptions::bias)",
          name(allowed.dtype()));
    check(allowed.dim() == 4, "the mask has shape {} (expected 4 dims: batch, heads, rows, keys; 1 where it is broadcast)",
          allowed.sizes());
  });
  Tensor stored = allowed;
  for (int64_t dim = 0; dim < 4; ++dim) {
    if (stored.stride(dim) == 0 && stored.size(dim) > 1) stored = stored.slice(dim, 0, 1);  // broadcast, not copied many times
  }
  return make(Node::Boolean{own_copy(stored)});
}

}  // namespace masks

}  // namespace deckle
