#include "deckle/kernels/cuda/attention/backward_plan.h"

#include <algorithm>
#include <vector>

#include "deckle/kernels/cuda/attention/bias_gradient.h"
#include "deckle/kernels/cuda/attention/checks.h"
#include "deckle/kernels/cuda/attention/launch.h"
#include "deckle/kernels/cuda/attention/portable_features.h"
#include "deckle/kernels/cuda/attention/portable_planes.h"
#include "deckle/kernels/cuda/attention/ragged_bias.h"
#include "deckle/kernels/cuda/attention/score_gradients.h"
#include "deckle/kernels/cuda/attention/tile_walks.cuh"
#include "deckle/kernels/cuda/attention/work_list.cuh"

namespace deckle::kernels::cuda::attention {
namespace {

// Keys in the mean of sequences from which one pass with its sums outweighs two without.
constexpr int64_t kOnePassKeys = 512;

constexpr int64_t kMultiprocessors = kPlannedMultiprocessors;

// The least division of `group` heads with which `tiles` equal pieces of work keep nearly all multiprocessors busy to the end.
int parts_of(int64_t tiles, int group) {
  int best = 1;
  double best_share = 0;
  for (int parts = 1; parts <= group; ++parts) {
    if (group % parts != 0) continue;
    const int64_t work = tiles * parts, rounds = (work + kMultiprocessors - 1) / kMultiprocessors;
    const double share = static_cast<double>(work) / static_cast<double>(rounds * kMultiprocessors);
    if (share > best_share + 0.05) {
      best_share = share;
      best = parts;
    }
    if (rounds > 2) break;
  }
  return best;
}

// Of one of the two buffers of dS at D = 256: two heads of 4k rows and keys are 64 MB.
constexpr int64_t kMostBufferBytes = int64_t{128} << 20;

// The least division of a group of heads from `parts` on whose parts are of `most` heads at most; of the group, if there is none.
int parts_that_fit(int parts, int group, int64_t most) {
  while (parts < group && group / parts > most) {
    do ++parts;
    while (group % parts != 0);
  }
  return parts;
}

// How many (sequence, kv head) pairs have their dS in memory at once: as many as fit, but so that the blocks of each launch end
// together. 0: none fits, or rows do not begin where tiles of dS do.
int planes_with_scores(const AttentionSizes& sizes, const AttentionWindow& mask) {
  const int64_t offset = mask.bottom_right ? sizes.key_rows - sizes.query_rows : 0,
                planes = int64_t{sizes.batch} * sizes.kv_heads;
  if (sizes.ragged() || planes == 0 || sizes.query_rows == 0 || sizes.key_rows == 0 || offset + mask.right < 0) return 0;
  const int64_t rows = BackwardPlan::score_rows(sizes), plane_bytes = 2 * rows * BackwardPlan::score_columns(sizes);
  const int64_t most = std::min(planes, kMostBufferBytes / (plane_bytes * (sizes.heads / sizes.kv_heads)));
  int best = 0;
  double least = 0;
  for (int64_t count = 1; count <= most; ++count) {
    const int64_t rounds = (count * rows / 64 + kMultiprocessors - 1) / kMultiprocessors;
    const double cost = (static_cast<double>(rounds) + 0.25) * static_cast<double>((planes + count - 1) / count);
    if (best == 0 || cost <= least) {
      least = cost;
      best = static_cast<int>(count);
    }
  }
  return best;
}

// The kernel of all gradients that a problem's features ask for.
const BackwardKernel& all_gradients_of(const BackwardKernels& kernels, const CudaAttentionProblem& problem) {
  return problem.bias.data != nullptr ? kernels.biased_gradients
         : has_features(problem)      ? kernels.scored_gradients
                                      : kernels.all_gradients;
}

// Whether the instances of these head dims have the kernel that the problem's features ask for.
bool have_features(const BackwardInstance& dims, const CudaAttentionProblem& problem) {
  if (!has_features(problem)) return true;
  for (const BackwardInstance& instance : backward_instances()) {
    if (instance.element == dims.element && instance.head_dim == dims.head_dim && instance.value_dim == dims.value_dim &&
        all_gradients_of(instance.kernels, problem).function != nullptr)
      return true;
  }
  return false;
}

// The instances of the problem's element type and of the smallest head dims that serve its own.
std::vector<BackwardInstance> instances_for(const CudaAttentionProblem& problem) {
  std::vector<BackwardInstance> found;
  for (const BackwardInstance& instance : backward_instances()) {
    if (!have_features(instance, problem)) continue;
    if (instance.element != problem.element ||
        !compiled_dims_serve(instance.head_dim, instance.value_dim, problem.sizes.head_dim, problem.sizes.value_dim)) {
      continue;
    }
    const int dims = instance.head_dim + instance.value_dim;
    if (!found.empty() && dims > found[0].head_dim + found[0].value_dim) continue;
    if (!found.empty() && dims < found[0].head_dim + found[0].value_dim) found.clear();
    found.push_back(instance);
  }
  return found;
}

}  // namespace

bool is_sum(const AttentionSizes& sizes, const CudaAttentionPlane& grad_bias) {
  return grad_bias.data != nullptr && ((grad_bias.offsets == nullptr && grad_bias.sequence_stride == 0 && sizes.batch != 1) ||
                                       (grad_bias.head_stride == 0 && sizes.heads != 1));
}

BackwardPlan::BackwardPlan(const CudaAttentionProblem& problem, const CudaAttentionPlane& grad_bias) {
  const auto take = [](BackwardKernel& to, const BackwardKernel& from) {
    if (from.function != nullptr) to = from;
  };
  for (const BackwardInstance& instance : instances_for(problem)) {
    take(kernels.key_gradients, instance.kernels.key_gradients);
    take(kernels.query_gradients, instance.kernels.query_gradients);
    take(kernels.short_gradients, instance.kernels.short_gradients);
    take(kernels.all_gradients, all_gradients_of(instance.kernels, problem));
    take(kernels.score_product, instance.kernels.score_product);
    head_dim = instance.head_dim;
  }
  if (!served() || problem.sizes.heads <= 0 || problem.sizes.kv_heads <= 0) return;
  const AttentionSizes& sizes = problem.sizes;
  ragged = sizes.ragged();
  const int64_t sequences = sizes.ragged() ? std::max(sizes.batch, 1) : 1;
  const bool scored = has_features(problem);  // which the kernels of several passes do not know
  if (scored) kernels.short_gradients = {};
  one_pass = kernels.all_gradients.function != nullptr && sizes.query_rows > 0 && sizes.key_rows > 0 &&
             (scored || sizes.key_rows >= kOnePassKeys * sequences);
  const AttentionWindow mask = bound_window(problem.mask);
  const bool listed = one_pass && has_walks(problem);
  rises = one_pass && !listed && sizes.heads == sizes.kv_heads && mask.right < kUnboundedWindow && mask.left >= kUnboundedWindow;
  unit = one_pass ? kernels.all_gradients.walked_rows : kernels.key_gradients.walked_rows;
  const int64_t statistics =
      int64_t{sizeof(float)} * sizes.heads * unit * std::max<int64_t>(max_tiles(sizes, Side::queries, unit), 1);
  if (ragged) {
    query_list = work_list_bytes(sizes, Side::keys, owner_of_keys().owned_rows);
    short_list = query_list + work_list_bytes(sizes, Side::queries, kernels.query_gradients.owned_rows);
    if (kernels.short_gradients.function != nullptr) {
      // The heads of a group are added up in registers, which are there where a sequence has one tile.
      short_rows = sizes.heads == sizes.kv_heads ? 2 * kShortRows : kShortRows;
      short_list_bytes = work_list_bytes(sizes, Side::queries, 2 * kShortRows);
    }
  }
  if (one_pass) {
    const int64_t tiles = max_tiles(sizes, Side::keys, kernels.all_gradients.owned_rows);
    parts = parts_of(tiles * sizes.kv_heads, sizes.heads / sizes.kv_heads);
  }
  if (kernels.score_product.function != nullptr && !one_pass && !scored) score_planes = planes_with_scores(sizes, mask);
  if (score_planes > 0) {
    const int64_t planes = int64_t{sizes.batch} * sizes.kv_heads;
    counters = static_cast<int>(2 * ((planes + score_planes - 1) / score_planes));
    score_bytes = 2 * score_rows(sizes) * score_columns(sizes) * score_planes * (sizes.heads / sizes.kv_heads);
  }
  if (one_pass && ragged && problem.bias.data != nullptr) {
    panel_head_rows = bias_layout(problem, unit).size(sizes);
    const int64_t sets = (problem.bias.head_stride != 0) + (grad_bias.data != nullptr);
    // The query heads of a key head take turns, too.
    parts = parts_that_fit(parts, sizes.heads / sizes.kv_heads,
                           kMostScoreBytes / std::max<int64_t>(sets * panel_head_rows * kPanelRowBytes, 1));
    const int64_t units = int64_t{sizes.kv_heads} * parts, heads = sizes.heads / units;
    const int64_t unit_bytes = std::max<int64_t>(sets * heads * panel_head_rows * kPanelRowBytes, 1);
    const int64_t most = std::clamp<int64_t>(kMostScoreBytes / unit_bytes, 1, units), launches = (units + most - 1) / most;
    panel_units = static_cast<int>((units + launches - 1) / launches);
    counters = std::max(counters, static_cast<int>(launches));
  }
  if (one_pass && !ragged && is_sum(sizes, grad_bias)) {
    const int group = sizes.heads / sizes.kv_heads;
    const int64_t most = kMostScoreBytes / score_gradient_bytes(sizes);
    if (most > 0) parts = parts_that_fit(parts, group, most);
    score_turns = {sizes, grad_bias, group / parts};
    counters = std::max(counters, score_turns.count);
  }
  lists = (int64_t{sizeof(int)} * counters + 255) / 256 * 256;
  scores = lists + (problem.plan == nullptr ? lists_bytes() : 0);
  walks = scores + 2 * score_bytes;
  lse2 = walks;
  if (listed) lse2 += tile_walks_bytes(problem, Side::keys, kernels.all_gradients.owned_rows, unit);
  delta = lse2 + statistics;
  turns = delta + statistics;
  query_sums = key_sums = bytes = (turns + (one_pass ? 2 * kTurnStride * statistics / unit : 0) + 255) / 256 * 256;
  if (one_pass) {
    key_sums = bytes = query_sums + statistics * head_dim;
    if (parts > 1) {
      key_sums_rows = sizes.key_rows * (sizes.ragged() ? 1 : sizes.batch);
      bytes += 2 * int64_t{sizeof(float)} * sizes.kv_heads * parts * key_sums_rows * head_dim;
    }
  }
  bias_sums = bytes;
  if (!ragged && is_sum(sizes, grad_bias)) {
    bytes += ((score_turns.count > 0 ? score_turns.bytes : portable::bias_gradient_bytes(problem)) + 255) / 256 * 256;
    score_sums = bytes;
    bytes += (score_turns.sum_bytes + 255) / 256 * 256;
  }
  sink_sums = bytes;
  bytes += (portable::sink_gradient_bytes(problem) + 255) / 256 * 256;
  if (one_pass && problem.slopes != nullptr)
    slope_parts = max_tiles(sizes, Side::keys, kernels.all_gradients.owned_rows) * kKeyWarps;
  slope_sums = bytes;
  bytes += int64_t{sizeof(float)} * sizes.heads * slope_parts;
  if (panel_units > 0) take_panels(problem, grad_bias);
}

void BackwardPlan::take_panels(const CudaAttentionProblem& problem, const CudaAttentionPlane& grad_bias) {
  const AttentionSizes& sizes = problem.sizes;
  const int64_t units = int64_t{sizes.kv_heads} * parts, heads = sizes.heads / units * panel_units;
  const int64_t head_bytes = panel_head_rows * kPanelRowBytes;
  const auto take = [&](int64_t size) {
    const int64_t at = (bytes + 255) / 256 * 256;
    bytes = at + size;
    return at;
  };
  panel_starts = take(int64_t{sizeof(int64_t)} * sizes.batch);
  panel_bias = take((problem.bias.head_stride != 0 ? heads : 1) * head_bytes);
  if (grad_bias.data == nullptr) return;
  panel_gradients = take(heads * head_bytes);
  if (grad_bias.head_stride == 0 && panel_units < units)
    panel_sums = take(int64_t{sizeof(float)} * bias_sum_elements(sizes, grad_bias));
}

std::vector<WorkListRequest> BackwardPlan::requests(void* memory) const {
  auto* bytes = static_cast<char*>(memory);
  const SequenceFilter filter{.skip_rows = short_rows};
  std::vector<WorkListRequest> made = {{Side::keys, owner_of_keys().owned_rows, bytes + key_list, filter, one_pass, rises},
                                       {Side::queries, kernels.query_gradients.owned_rows, bytes + query_list, filter}};
  if (short_rows >= 0) {
    made.push_back({.side = Side::queries,
                    .height = 2 * kShortRows,
                    .memory = bytes + short_list,
                    .filter = {.most_rows = short_rows},
                    .whole = true});
  }
  return made;
}

}  // namespace deckle::kernels::cuda::attention
