#include "deckle/attention/plan.h"

#include <cmath>

#include "deckle/base/check.h"

namespace deckle {

Plan make_attention_plan(const Tensor& q, const Tensor& k, const Tensor& v, const Ragged& q_rows, const Ragged& k_rows,
                         const AttentionOptions& options) {
  check(q.dtype() == k.dtype() && q.dtype() == v.dtype(), "attention: q, k and v are {}, {} and {} (expected one dtype)", name(q.dtype()),
        name(k.dtype()), name(v.dtype()));
  check(is_floating(q.dtype()), "attention: dtype {} (expected a floating dtype)", name(q.dtype()));
  check(q.size(2) == k.size(2), "attention: q has head dim {}, k has {} (expected the same)", q.size(2), k.size(2));
  check(k.size(1) == v.size(1), "attention: k has {} heads, v has {} (expected the same)", k.size(1), v.size(1));
  check(k.size(1) > 0 && q.size(1) % k.size(1) == 0, "attention: {} query heads are no multiple of {} key heads", q.size(1), k.size(1));
  check(q_rows->components() == k_rows->components(), "attention: q has {} sequences, k has {}", q_rows->components(), k_rows->components());
  check(!options.scale || std::isfinite(*options.scale), "attention: scale {} (expected a finite number)", options.scale.value_or(0));
  if (options.mask.causal) {
    check(options.mask.right < 0, "attention: a causal mask with right = {} (causal already ends at the query's position; leave right negative)",
          options.mask.right);
  }

  struct Owner {
    Ragged q, k;
  };
  auto owner = std::make_shared<Owner>(Owner{q_rows, k_rows});
  auto plan = std::make_shared<AttentionPlan>();
  AttentionProblem& problem = plan->problem;
  problem.dtype = q.dtype();
  problem.sequences = q_rows->components();
  problem.heads = q.size(1);
  problem.kv_heads = k.size(1);
  problem.head_dim = q.size(2);
  problem.value_dim = v.size(2);
  problem.q_offsets = q_rows->offsets().data();
  problem.k_offsets = k_rows->offsets().data();
  problem.scale = options.scale.value_or(problem.head_dim > 0 ? 1.0 / std::sqrt(static_cast<double>(problem.head_dim)) : 1.0);
  problem.alignment = options.mask.alignment;
  problem.causal = options.mask.causal;
  problem.window_left = options.mask.left;
  problem.window_right = options.mask.right;
  plan->owner = std::move(owner);
  return plan;
}

}  // namespace deckle
