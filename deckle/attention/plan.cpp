#include "deckle/attention/plan.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "deckle/attention/candidates.h"
#include "deckle/attention/compile_mask.h"
#include "deckle/attention/cuda_candidates.h"
#include "deckle/attention/mask_node.h"
#include "deckle/base/check.h"
#include "deckle/core/cuda/capture.h"
#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/limits.h"
#include "deckle/core/cuda/memory.h"
#include "deckle/core/cuda/mirror.h"
#include "deckle/core/ragged_room.h"
#include "deckle/core/shown.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/dispatch/view.h"
#include "deckle/nested/capacity.h"
#include "deckle/ops/shapes.h"

namespace deckle {
namespace {

void require_per_head(const char* argument, const Tensor& x, const AttentionProblem& problem, size_t dims) {
  if (!x.defined()) return;
  check(x.sizes().size() == dims && x.size(0) == problem.heads, "{} has shape {} (expected {} for {} heads)", argument, x.sizes(),
        dims == 1 ? "[H]" : "[H, 2 R + 1]", problem.heads);
  check(x.dtype() == shapes::statistics_dtype(problem.dtype), "{} is {} (expected {} beside {} inputs)", argument,
        name(x.dtype()), name(shapes::statistics_dtype(problem.dtype)), name(problem.dtype));
}

void require_devices(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  const std::pair<const char*, const Tensor*> operands[] = {{"k", &k},
                                                            {"v", &v},
                                                            {"bias", &options.bias},
                                                            {"ragged_bias", &options.ragged_bias.values()},
                                                            {"slopes", &options.slopes},
                                                            {"sinks", &options.sinks},
                                                            {"table", &options.table}};
  for (const auto& [argument, x] : operands) {
    if (!x->defined()) continue;
    check(x->device() == q.device(), "{} is on {}, q on {} (expected one device)", argument, x->device(), q.device());
  }
}

/// Whether kernels, which compute in the dtype of the statistics, can hold it: 0, or neither too large nor too small.
bool in_range(double value, DType statistics) {
  return value == 0 || (statistics == DType::float64 ? std::isnormal(value) : std::isnormal(static_cast<float>(value)));
}

AttentionPlane plane_of(const Tensor& x) {
  const auto stride = [&](int dim) { return x.size(dim) == 1 ? int64_t{0} : x.stride(dim); };
  return {dispatch::view(x).data, stride(0), stride(1), stride(2), stride(3)};
}

/// What the problem points to. `k` are the keys, in the rows of k and v that `k_rows` tells.
struct Owner {
  Ragged q, k, k_rows;
  CompiledMask mask;
  Ragged bias;
  std::vector<uint8_t> decoded;
  Plan kept;  // whose mask and lengths these are, where the caller gave a plan
  /// What the kernels were chosen for, on which device; none where DECKLE_FORCE asked for one.
  std::optional<std::pair<AttentionRequest, std::string>> chosen_for;

  Owner() = default;
  ~Owner() { cuda::drop_mirrors(this); }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;
};

const Owner& owner_of(const AttentionPlan& plan) { return *static_cast<const Owner*>(plan.owner.get()); }

std::span<const std::byte> bytes_of(const std::vector<int32_t>& bounds) { return std::as_bytes(std::span(bounds)); }

/// From the first to the last element.
std::span<const std::byte> bytes_of(const Tensor& plane) {
  if (!plane.defined() || plane.numel() == 0) return {};
  int64_t last = 0;
  for (int64_t dim = 0; dim < plane.dim(); ++dim) last += (plane.size(dim) - 1) * plane.stride(dim);
  return {static_cast<const std::byte*>(plane_of(plane).data), static_cast<size_t>(last + 1)};
}

/// Its own, or that of the plan which it was made from.
const CompiledMask& mask_of(const AttentionPlan& plan) {
  const Owner& owner = owner_of(plan);
  return owner.kept != nullptr ? owner_of(*owner.kept).mask : owner.mask;
}

/// A plan with a mask and lengths of its own, behind however many that took theirs from it.
Plan origin(Plan plan) {
  while (plan != nullptr && owner_of(*plan).kept != nullptr) plan = owner_of(*plan).kept;
  return plan;
}

/// How many of each sequence's rows of k and v are keys.
Ragged keys_of(const Ragged& k_rows, const std::vector<int64_t>& lengths) {
  if (lengths.empty()) return k_rows;
  static_cast<void>(k_rows->offsets());  // throws where the host does not know them
  const int64_t sequences = k_rows->components();
  check(std::ssize(lengths) == sequences, "key_lengths has {} numbers for {} sequences (expected one each, or none at all)",
        lengths.size(), sequences);
  for (int64_t b = 0; b < sequences; ++b) {
    const int64_t length = lengths[static_cast<size_t>(b)];
    check(length >= 0 && length <= k_rows->size(b), "key_lengths[{}] is {}, k has {} rows there (expected 0 to {})", b, length,
          k_rows->size(b), k_rows->size(b));
  }
  return Ragged::from_lengths(lengths);
}

/// Offsets that the device alone knows; on a fake device the CPU's kernels find them in its memory.
void set_offsets(const Ragged& rows, const int64_t*& known, const int64_t*& on_device, int64_t& most) {
  const RaggedRoom* const room = rows->room();
  if (room == nullptr) {
    known = rows->offsets().data();
    return;
  }
  auto* const offsets = static_cast<int64_t*>(address(room->offsets));
  (cuda::fake() ? known : on_device) = static_cast<const int64_t*>(cuda::for_kernels(offsets));
  most = room->longest;
}

void plan_mask(const AttentionOptions& options, AttentionProblem& problem, Owner& owner, bool on_device) {
  if (owner.kept == nullptr) {
    owner.mask = compile_mask(options.mask, owner.q, owner.k, problem.heads, owner.k_rows);
    if (on_device && (!owner.mask.bounds.empty() || owner.mask.plane.defined())) {
      cuda::refuse_in_capture("a mask compiled and uploaded, as attention_plan does");
      cuda::keep_mirrors(&owner, {bytes_of(owner.mask.bounds), bytes_of(owner.mask.plane)});
    }
  }
  const CompiledMask& mask = owner.kept != nullptr ? owner_of(*owner.kept).mask : owner.mask;
  check(!mask.mixed_alignments || !(options.slopes.defined() || options.table.defined()),
        "the mask has parts of both alignments, so {} has no one distance to go by; align all parts alike",
        options.slopes.defined() ? "slopes" : "table");
  problem.alignment = mask.alignment;
  problem.causal = mask.causal;
  problem.window_left = mask.left;
  problem.window_right = mask.right;
  if (!mask.bounds.empty()) problem.ranges = {mask.bounds.data(), mask.range_count};
  if (mask.plane.defined()) problem.mask = plane_of(mask.plane);
}

void plan_bias(const AttentionOptions& options, AttentionProblem& problem, Owner& owner) {
  check(!(options.bias.defined() && options.ragged_bias.defined()), "both bias and ragged_bias are given (expected one of them)");
  if (options.bias.defined()) {
    require_plane("bias", options.bias, owner.q, owner.k, problem.heads);
    check(options.bias.dtype() == problem.dtype, Argument{"bias"}, "is {} (expected {}, as q)", name(options.bias.dtype()),
          name(problem.dtype));
  }
  if (options.ragged_bias.defined()) {
    const NestedTensor& bias = options.ragged_bias;
    check(bias.ragged_dims() == 2 && bias.values().dim() == 1,
          "ragged_bias has {} ragged dims and {} dims in all (expected [B, M_b, N_b], two of them ragged)", bias.ragged_dims(),
          bias.dim());
    check(bias.dtype() == problem.dtype, Argument{"ragged_bias"}, "is {} (expected {}, as q)", name(bias.dtype()),
          name(problem.dtype));
    check(bias.components() == problem.sequences, "ragged_bias has {} planes for {} sequences (expected one each)",
          bias.components(), problem.sequences);
    for (int64_t b = 0; b < problem.sequences; ++b) {
      check(bias.ragged()->size(b, 0) == owner.q->size(b) && bias.ragged()->size(b, 1) == owner.k->size(b),
            "ragged_bias[{}] is {} x {} (expected the sequence's rows x keys, {} x {})", b, bias.ragged()->size(b, 0),
            bias.ragged()->size(b, 1), owner.q->size(b), owner.k->size(b));
    }
    owner.bias = bias.ragged();
    problem.bias_offsets = owner.bias->offsets().data();
  }
}

/// All that kernels are chosen by: a request without the place of dropout's numbers.
AttentionRequest choice(AttentionRequest request) {
  request.problem.dropout = {.threshold = request.problem.dropout.threshold};
  return request;
}

/// Chooses the kernels of every pass, or takes those of the kept plan where it chose for the same.
void plan_kernels(const AttentionRequest& request, const std::string& device, AttentionPlan& plan, Owner& owner) {
  const bool forced = attention_kernel_is_forced();
  if (!forced) owner.chosen_for.emplace(choice(request), device);
  if (owner.kept != nullptr && !forced && owner_of(*owner.kept).chosen_for == owner.chosen_for) {
    plan.problem.decoded = owner.kept->problem.decoded;
    plan.kernels = owner.kept->kernels;
    return;
  }
  if (device == "cpu" && !forced) {
    owner.decoded = kernels::cpu::decoded_sequences(request);
    const bool any = std::find(owner.decoded.begin(), owner.decoded.end(), 1) != owner.decoded.end();
    if (any) plan.problem.decoded = owner.decoded.data();
  }
  AttentionRequest of_pass = request;
  for (int pass = 0; pass < kAttentionPasses; ++pass) {
    of_pass.pass = static_cast<AttentionPass>(pass);
    plan.kernels[static_cast<size_t>(pass)] = choose_attention_kernel(of_pass, device);
  }
}

}  // namespace

bool bias_is_in_pieces(const Tensor& bias) {
  if (!bias.defined()) return false;
  if (bias.numel() == 0) return true;  // nobody reads it
  if (bias.size(3) % 8 != 0 || bias.stride(3) == 0) return false;
  if (bias.stride(3) != 1) return true;  // it is copied
  for (int dim = 0; dim < 3; ++dim) {
    if (bias.size(dim) != 1 && bias.stride(dim) % 8 != 0) return false;
  }
  return reinterpret_cast<uintptr_t>(address(bias)) % 16 == 0;
}

Plan make_attention_plan(const Tensor& q, const Tensor& k, const Tensor& v, const Ragged& q_rows, const Ragged& k_rows,
                         const AttentionOptions& options) {
  require_devices(q, k, v, options);
  check(q.dtype() == k.dtype() && q.dtype() == v.dtype(), "q, k and v are {}, {} and {} (expected one dtype)", name(q.dtype()),
        name(k.dtype()), name(v.dtype()));
  check(is_floating(q.dtype()), "q, k and v are {} (expected float64, float32, bfloat16 or float16)", name(q.dtype()));
  check(q.size(2) == k.size(2), "q has head dim {}, k has {} (expected the same)", q.size(2), k.size(2));
  check(k.size(1) == v.size(1), "k has {} heads, v has {} (expected the same)", k.size(1), v.size(1));
  check(q.size(1) > 0 && k.size(1) > 0 && q.size(1) % k.size(1) == 0,
        "q has {} heads, k and v have {} (expected a multiple of theirs, 1 or more)", q.size(1), k.size(1));
  check(q_rows->components() == k_rows->components(), "q has {} sequences, k and v have {} (expected the same)",
        q_rows->components(), k_rows->components());
  const DType statistics = shapes::statistics_dtype(q.dtype());
  check(!options.scale || in_range(*options.scale, statistics), Argument{"scale"},
        "is {} (expected a finite number in the range of {})", options.scale.value_or(0), name(statistics));
  check(options.soft_cap >= 0 && in_range(options.soft_cap, statistics), Argument{"soft_cap"},
        "is {} (expected 0 for none, or a positive number in the range of {})", options.soft_cap, name(statistics));
  check(options.dropout >= 0 && options.dropout <= 1, Argument{"dropout"}, "is {} (expected 0..1)", options.dropout);

  auto owner = std::make_shared<Owner>();
  owner->kept = origin(options.plan);
  if (owner->kept != nullptr) {
    const AttentionPlan& kept = *owner->kept;
    check(q_rows == owner_of(kept).q && k_rows == owner_of(kept).k_rows && q.size(1) == kept.problem.heads,
          "plan is of {} heads, rows {} and keys {}; q has {} heads, rows {} and keys {} (expected the plan of this batch)",
          kept.problem.heads, Shown{owner_of(kept).q}, Shown{owner_of(kept).k_rows}, q.size(1), Shown{q_rows}, Shown{k_rows});
    check(std::holds_alternative<AttentionMask::Node::Full>(options.mask.node().is),
          "a mask is given beside plan, which has its own (expected one of them)");
    check(options.key_lengths.empty(), "key_lengths are given beside plan, which has its own (expected one of them)");
  }
  owner->k = owner->kept != nullptr ? owner_of(*owner->kept).k : keys_of(k_rows, options.key_lengths);
  // The plan's own shapes, which are equal: what a device has of them is there, also when a graph is recorded.
  owner->q = owner->kept != nullptr ? owner_of(*owner->kept).q : q_rows;
  owner->k_rows = owner->kept != nullptr ? owner_of(*owner->kept).k_rows : k_rows;
  auto plan = std::make_shared<AttentionPlan>();
  AttentionProblem& problem = plan->problem;
  problem.dtype = q.dtype();
  problem.sequences = q_rows->components();
  problem.heads = q.size(1);
  problem.kv_heads = k.size(1);
  problem.head_dim = q.size(2);
  problem.value_dim = v.size(2);
  check(nested::on_device_alone(q_rows) == nested::on_device_alone(k_rows),
        "q has {}, k {} (expected lengths that are known at the same place)", Shown{q_rows}, Shown{k_rows});
  set_offsets(owner->q, problem.q_offsets, problem.device_q_offsets, problem.most_rows);
  set_offsets(owner->k_rows, problem.k_offsets, problem.device_k_offsets, problem.most_keys);
  if (!options.key_lengths.empty() || (owner->kept != nullptr && owner->kept->problem.k_lengths != nullptr))
    problem.k_lengths = owner->k->sizes().data();
  problem.scale = options.scale.value_or(problem.head_dim > 0 ? 1.0 / std::sqrt(static_cast<double>(problem.head_dim)) : 1.0);
  problem.bias_before_cap = options.bias_before_cap;
  problem.soft_cap = options.soft_cap;

  plan_mask(options, problem, *owner, q.device().is_cuda());
  plan_bias(options, problem, *owner);
  require_per_head("slopes", options.slopes, problem, 1);
  require_per_head("sinks", options.sinks, problem, 1);
  require_per_head("table", options.table, problem, 2);
  if (options.table.defined()) {
    check(options.table.size(1) % 2 == 1, "table has {} columns (expected an odd number, 2 R + 1)", options.table.size(1));
    problem.table_reach = options.table.size(1) / 2;
  }
  if (options.dropout > 0) {
    Generator& generator = options.generator != nullptr ? *options.generator : default_generator();
    const PhiloxStream stream = generator.reserve(4, q.device());
    problem.dropout.threshold = static_cast<int>(std::nearbyint(256 * options.dropout));
    problem.dropout.seed = stream.seed;
    problem.dropout.offset = stream.offset;
    problem.dropout.standing = stream.standing;
  }
  plan_kernels(attention_request(*plan, options, q.device()), device_name(q.device()), *plan, *owner);
  if (q.device().is_cuda()) {
    const Device told = cuda::fake() && !is_dense(problem) ? q.device() : Device();
    for (const Ragged* rows : {&owner->q, &owner->k, &owner->k_rows, &owner->bias}) {
      if (rows->defined() && !nested::on_device_alone(*rows)) (*rows)->row_map().keep_mirrors(told);
    }
  }
  plan->owner = std::move(owner);
  return plan;
}

void upload_mask(const AttentionPlan& plan, Device device) {
  if (!device.is_cuda()) return;
  const CompiledMask& mask = mask_of(plan);
  for (const std::span<const std::byte> part : {bytes_of(mask.bounds), bytes_of(mask.plane)}) {
    if (!part.empty()) cuda::mirror_of(part.data(), device);
  }
}

namespace {

/// Whether kernels will find a row of its own for each query: expanded rows stay one, but for those of a bias that is copied.
bool has_rows(const Tensor& bias) { return bias.defined() && bias.size(2) > 1 && (bias.stride(2) != 0 || bias.stride(3) > 1); }

}  // namespace

AttentionRequest attention_request(const AttentionPlan& plan, const AttentionOptions& options, Device device) {
  const cuda::DeviceLimits limits = cuda::device_limits(device);
  return {plan.problem,
          AttentionPass::forward,
          options.bias.defined() || options.ragged_bias.defined(),
          options.slopes.defined(),
          options.table.defined(),
          options.sinks.defined(),
          bias_is_in_pieces(options.bias),
          options.ragged_bias.defined() || has_rows(options.bias),
          limits.capability_major,
          limits.capability_minor,
          limits.block_bytes};
}

std::string device_name(Device device) { return device.is_cpu() || cuda::fake() ? "cpu" : "cuda"; }

}  // namespace deckle
