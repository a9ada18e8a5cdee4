// Host side of the attention backward: three launches (five if ragged), no synchronisation.
//   list_tiles       ragged: the tiles of both sides, longest first
//   row_statistics   lse2 and delta = dO . O - dLSE
// then, at head dims 64 and 128,
//   all_gradients    dK, dV, and dQ as float32 sums in a fixed order: key tiles walk queries, 5 products
//   round_query_gradients (and round_key_gradients, where the q heads of a kv head are divided among blocks)
// (ragged, with a bias, for a few heads after the other: between a copy of the bias and a sum of its gradient, see ragged_bias.h;
// dense, with a bias whose gradient is a sum, for a few sequences or heads: before the sum of their dS, see score_gradients.h)
// or, at others, without sums between blocks,
//   key_gradients    dK, dV: key tiles walk queries      4 products
//   query_gradients  dQ: query tiles walk keys           3 products
// or, at D = 256, for a few heads after the other,
//   key_gradients    dK, dV, and dS as it is             4 products
//   query_gradients_of_scores  dQ from that              1 product
// and last
//   short_gradients  ragged: all of dQ, dK, dV of sequences of at most 128 rows and keys
// All of it is bit-equal from run to run.
#include "deckle/kernels/cuda/attention/backward_pass.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "deckle/kernels/cuda/attention/backward_order.cuh"
#include "deckle/kernels/cuda/attention/backward_plan.h"
#include "deckle/kernels/cuda/attention/backward_short.cuh"
#include "deckle/kernels/cuda/attention/backward_statistics.cuh"
#include "deckle/kernels/cuda/attention/bias_gradient.h"
#include "deckle/kernels/cuda/attention/checks.h"
#include "deckle/kernels/cuda/attention/forward_lists.h"
#include "deckle/kernels/cuda/attention/portable_features.h"
#include "deckle/kernels/cuda/attention/portable_planes.h"
#include "deckle/kernels/cuda/attention/problem.cuh"
#include "deckle/kernels/cuda/attention/ragged_bias.h"
#include "deckle/kernels/cuda/attention/score_gradients.h"

namespace deckle::kernels::cuda::attention {
namespace {

constexpr const char* kName = "attention_backward";

// The live rows of a dense batch end here; the key kernel's maps of q and dO end there too.
int64_t live_end(const CudaAttentionProblem& problem) {
  const AttentionSizes& sizes = problem.sizes;
  const int queries = static_cast<int>(sizes.query_rows), keys = static_cast<int>(sizes.key_rows);
  return std::min(live_rows(band_of(bound_window(problem.mask), queries, keys), queries, keys).end(), queries);
}

// Work of at most so many walked tiles is drawn ahead by the two kernels that add nothing in an order: drawing takes 2 us (a
// chain of an atomic and two loads), such work little more. Not so where dQ is added in an order: where causal or ragged walks
// end, a block held up to four works, the last short ones of a sequence and the first long one of the next, for whose sums of dQ
// other blocks waited (backward of D 128, S 2k, causal documents: 1.53 ms, one at a time 0.47; ragged 64 x 1212 causal, D 64: 6.8
// and 3.5; H200, 2026-11-23, at af048881; the run was not kept).
constexpr int kShortWork = 6;

/// One backward: its launches, prepared one after the other with all that may be refused, and then queued.
class Pass {
 public:
  Pass(const AttentionBackward& arguments, cudaStream_t stream) : arguments_(arguments), stream_(stream) {
    const AttentionWindow mask = bound_window(problem_.mask);
    common_.query_offsets = sizes_.query_offsets;
    common_.key_offsets = sizes_.key_offsets;
    common_.key_lengths = sizes_.key_lengths;
    common_.lse2 = memory<float>(plan_.lse2);
    common_.delta_from_lse2 = (plan_.delta - plan_.lse2) / int64_t{sizeof(float)};
    common_.statistics_rows = max_tiles(sizes_, Side::queries, plan_.unit) * plan_.unit;
    common_.statistics_unit = plan_.unit;
    common_.batch = sizes_.batch;
    common_.heads = sizes_.heads;
    common_.group = sizes_.heads / sizes_.kv_heads;
    common_.parts = 1;
    common_.query_rows = static_cast<int>(sizes_.query_rows);
    common_.key_rows = static_cast<int>(sizes_.key_rows);
    common_.left = mask.left;
    common_.right = mask.right;
    common_.bottom_right = mask.bottom_right;
    common_.head_dim = sizes_.head_dim;
    common_.value_dim = sizes_.value_dim;
    common_.scale = problem_.scale;
    common_.scale_log2 = problem_.scale * 1.4426950408889634f;
    common_.short_rows = plan_.short_rows;
    common_.drawn_ahead = plan_.one_pass ? 0 : kShortWork;
    if (plan_.one_pass) {
      common_.query_sums = memory<float>(plan_.query_sums);
      common_.turns = memory<int>(plan_.turns);
    }
    if (has_features(problem_)) features();
    if (plan_.panel_units > 0) copy_bias(common_.panels);
    row_statistics();
    launches_.push_back([this] {
      portable::mark_live_rows_without_keys(problem_, memory<float>(plan_.lse2), memory<float>(plan_.delta),
                                            common_.statistics_rows, plan_.unit, stream_);
    });
    if (plan_.score_planes > 0) {
      gradients_by_scores();
      return;
    }
    if (plan_.panel_units > 0) {
      gradients_by_heads();
      return;
    }
    if (plan_.score_turns.count > 0) {
      gradients_by_turns();
      return;
    }
    key_gradients(plan_.owner_of_keys());
    if (plan_.one_pass) {
      round_gradients();
    } else {
      query_gradients();
    }
    if (sizes_.ragged() && arguments_.grad_bias.data != nullptr) sum_bias_gradient(common_.panels, {plan_.unit, sizes_.heads});
    if (plan_.short_rows >= 0) short_gradients();
  }

  void run() const {
    if (sizes_.ragged() && problem_.plan == nullptr) {
      make_work_lists(problem_, plan_.requests(memory<void>(plan_.lists)), stream_);
    }
    if (sizes_.query_rows == 0) {
      // Nobody else sets the counters to zero from which the blocks of the next kernels draw.
      check(cudaMemsetAsync(memory<int>(0), 0, plan_.counters * sizeof(int), stream_), kName);
    }
    clear_bias_gradient();
    make_tile_walks(problem_, Side::keys, common_.walks, stream_);
    const int64_t slope_bytes = sizeof(float) * sizes_.heads * plan_.slope_parts;
    if (wants_slopes() && slope_bytes > 0)
      check(cudaMemsetAsync(memory<float>(plan_.slope_sums), 0, slope_bytes, stream_), kName);
    for (const auto& launch : launches_) launch();
    if (sums_bias() && plan_.score_turns.count == 0) portable::bias_gradient(arguments_, memory<void>(plan_.bias_sums), stream_);
    if (wants_slopes())
      portable::add_parts(memory<float>(plan_.slope_sums), arguments_.grad_slopes, sizes_.heads, plan_.slope_parts, stream_);
    portable::sink_gradients(arguments_, memory<void>(plan_.sink_sums), stream_);
    portable::clear_spare_keys(arguments_, stream_);
  }

 private:
  enum class Start { after_predecessor, beside_predecessor };

  // Of dS that is kept in memory, or, where that of one head takes too much, by the portable kernels' walk.
  bool sums_bias() const { return !sizes_.ragged() && is_sum(sizes_, arguments_.grad_bias); }

  // How the copy engine sees a bias, or its gradient.
  CUtensorMap bias_map(const CudaAttentionPlane& plane) const {
    return tile::make_tensor_map(plane_shape(sizes_, plane), plan_.kernels.all_gradients.walked_rows);
  }

  bool wants_slopes() const { return problem_.slopes != nullptr && arguments_.grad_slopes != nullptr; }

  template <class T>
  T* memory(int64_t offset) const {
    return reinterpret_cast<T*>(static_cast<char*>(problem_.workspace) + offset);
  }

  CUtensorMap map(const AttentionTensor& tensor, Side side, int columns, int box_rows) const {
    return operand_map(problem_, tensor, side == Side::keys, columns, box_rows);
  }

  void use_list(BackwardArguments& to, int64_t list) const {
    if (!sizes_.ragged()) return;
    const void* lists = problem_.plan != nullptr ? static_cast<const char*>(problem_.plan) + forward_lists_bytes(problem_)
                                                 : memory<const char>(plan_.lists);
    to.list = reinterpret_cast<const WorkListHeader*>(static_cast<const char*>(lists) + list);
    to.items = reinterpret_cast<const WorkItem*>(to.list + 1);
  }

  template <class... Parameters>
  void add(const BackwardKernel& kernel, dim3 grid, Start start, const Parameters&... parameters) {
    if (kernel.shared_bytes > 0) allow_shared_memory(kernel.function, kernel.shared_bytes);
    launches_.push_back([=, stream = stream_, values = std::tuple(parameters...)]() mutable {
      cudaLaunchAttribute attribute{};
      attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
      attribute.val.programmaticStreamSerializationAllowed = 1;
      cudaLaunchConfig_t config{};
      config.gridDim = grid;
      config.blockDim = dim3(kernel.threads);
      config.dynamicSmemBytes = kernel.shared_bytes;
      config.stream = stream;
      config.attrs = &attribute;
      config.numAttrs = start == Start::beside_predecessor ? 1 : 0;
      std::apply(
          [&](auto&... value) {
            void* pointers[] = {&value...};
            check(cudaLaunchKernelExC(&config, kernel.function, pointers), kName);
          },
          values);
    });
  }

  // Persistent blocks, one a multiprocessor, draw the tiles of one side.
  void add_tiles(const BackwardKernel& kernel, BackwardArguments& arguments, Side side, Start start) {
    const bool keys = side == Side::keys;
    const int64_t rows = keys ? sizes_.key_rows : sizes_.query_rows, heads = keys ? sizes_.heads / arguments.group : sizes_.heads;
    const int64_t tiles = max_tiles(sizes_, side, kernel.owned_rows);
    if (rows == 0 || tiles * heads == 0) return;
    order_tiles(arguments, problem_, plan_, kernel, side);
    const int64_t items = (sizes_.ragged() ? tiles : int64_t{arguments.tiles}) * arguments.planes;
    add(kernel, dim3(static_cast<unsigned>(std::min<int64_t>(multiprocessors(), items))), start, arguments);
  }

  // What all kernels are told of features of scores.
  void features() {
    common_.features = portable::score_features(problem_);
    common_.changes_scores = problem_.soft_cap != 0 || problem_.slopes != nullptr || has_walks(problem_);
    if (common_.changes_scores) common_.scale_log2 = 1.0f;
    common_.set = feature_set(problem_);
    if (wants_slopes()) common_.slope_sums = memory<float>(plan_.slope_sums);
    common_.slope_parts = static_cast<int>(plan_.slope_parts);
    if (plan_.one_pass)
      common_.walks = tile_walks(problem_, Side::keys, plan_.owner_of_keys().owned_rows, plan_.unit, memory<void>(plan_.walks));
    if (problem_.bias.data == nullptr || sizes_.query_rows == 0 || sizes_.key_rows == 0) return;
    if (sizes_.ragged()) {
      common_.wants_grad_bias = arguments_.grad_bias.data != nullptr;
      common_.panels = {.starts = memory<int64_t>(plan_.panel_starts),
                        .bias = memory<uint16_t>(plan_.panel_bias),
                        .gradients = common_.wants_grad_bias ? memory<uint16_t>(plan_.panel_gradients) : nullptr,
                        .head_rows = plan_.panel_head_rows,
                        .has_heads = problem_.bias.head_stride != 0};
      return;
    }
    common_.bias = bias_map(problem_.bias);
    common_.bias_has_heads = problem_.bias.head_stride != 0;
    common_.bias_has_sequences = problem_.bias.sequence_stride != 0;
    if (arguments_.grad_bias.data == nullptr || sums_bias()) return;
    common_.wants_grad_bias = true;
    common_.grad_bias = bias_map(arguments_.grad_bias);
  }

  // Of tiles that no kernel visits, and of a bias that reaches beyond rows and keys. The gradient lies as bias_why_not wants it.
  void clear_bias_gradient() const {
    if (plan_.score_turns.count > 0 && !equal_costs(problem_))  // all planes have the same tiles: once for all turns
      check(cudaMemsetAsync(memory<void>(plan_.bias_sums), 0, plan_.score_turns.bytes, stream_), kName);
    const CudaAttentionPlane& plane = arguments_.grad_bias;
    if (plane.data == nullptr || sizes_.ragged() || sums_bias()) return;
    const bool visited = equal_costs(problem_) && plane.rows == sizes_.query_rows && plane.columns == sizes_.key_rows;
    if (visited) return;
    portable::clear_plane(plane, plane.head_stride != 0 ? sizes_.heads : 1, plane.sequence_stride != 0 ? sizes_.batch : 1,
                          stream_);
  }

  // Also sets the counters to zero from which the blocks of the next two kernels draw.
  void row_statistics() {
    if (sizes_.query_rows == 0) return;
    StatisticsArguments args{};
    args.common = common_;
    use_list(args.common, plan_.query_list);
    args.element = element();
    args.out = problem_.out.data;
    args.grad_out = arguments_.grad_out.data;
    const auto strides = [](int64_t(&to)[3], const AttentionTensor& from) {
      to[0] = from.batch_stride;
      to[1] = from.row_stride;
      to[2] = from.head_stride;
    };
    strides(args.out_strides, problem_.out);
    strides(args.grad_out_strides, arguments_.grad_out);
    args.lse = problem_.lse;
    args.grad_lse = arguments_.grad_lse;
    args.value_dim = sizes_.value_dim;
    args.lse_unit = problem_.bias.data != nullptr ? 1.0f : 1.4426950408889634f;
    args.lse2 = memory<float>(plan_.lse2);
    args.delta = memory<float>(plan_.delta);
    args.list_rows = sizes_.ragged() ? plan_.kernels.query_gradients.owned_rows : plan_.unit;
    args.counters = memory<int>(0);
    args.counter_count = plan_.counters;
    const int64_t tiles = max_tiles(sizes_, Side::queries, args.list_rows);
    add({row_statistics_kernel(), 256},
        dim3(static_cast<unsigned>(tiles), (sizes_.heads + kStatisticsHeads - 1) / kStatisticsHeads), Start::after_predecessor,
        args);
  }

  void key_gradients(const BackwardKernel& kernel) {
    BackwardArguments args = key_arguments(kernel);
    add_tiles(kernel, args, Side::keys, Start::beside_predecessor);
  }

  BackwardArguments key_arguments(const BackwardKernel& kernel) const {
    BackwardArguments args = common_;
    args.next = memory<int>(0);
    use_list(args, plan_.key_list);
    CudaAttentionProblem live = problem_;
    if (!sizes_.ragged()) live.sizes.query_rows = live_end(problem_);
    args.q = operand_map(live, problem_.q, false, sizes_.head_dim, kernel.walked_rows);
    args.grad_out = operand_map(live, arguments_.grad_out, false, sizes_.value_dim, kernel.walked_rows);
    args.k = map(problem_.k, Side::keys, sizes_.head_dim, kernel.owned_rows);
    args.v = map(problem_.v, Side::keys, sizes_.value_dim, kernel.owned_rows);
    args.grad_k = map(arguments_.grad_k, Side::keys, sizes_.head_dim, 16);
    args.grad_v = map(arguments_.grad_v, Side::keys, sizes_.value_dim, 16);
    args.grad_k_rows = arguments_.grad_k;
    args.grad_v_rows = arguments_.grad_v;
    args.parts = plan_.parts;
    args.group /= plan_.parts;
    args.key_sums = memory<float>(plan_.key_sums);
    args.key_sums_rows = plan_.key_sums_rows;
    return args;
  }

  // A few heads after the other: dK, dV and dS of these, then their dQ, from one of two buffers in turn. So the next heads begin
  // where blocks of dQ run out of work.
  void gradients_by_scores() {
    const BackwardKernel &keys = plan_.kernels.key_gradients, &product = plan_.kernels.score_product;
    const int group = common_.group, all = sizes_.batch * sizes_.kv_heads;
    BackwardArguments of_keys = key_arguments(keys), of_queries = common_;
    of_queries.k = map(problem_.k, Side::keys, sizes_.head_dim, product.walked_rows);
    of_queries.grad_q = map(arguments_.grad_q, Side::queries, sizes_.head_dim, 16);
    int* next = memory<int>(0);
    for (int first = 0, launch = 0; first < all; first += plan_.score_planes, ++launch) {
      const int64_t rows = BackwardPlan::score_rows(sizes_), columns = BackwardPlan::score_columns(sizes_);
      of_keys.first_plane = first;
      of_keys.planes = std::min(plan_.score_planes, all - first);
      of_queries.first_plane = first * group;
      of_queries.planes = of_keys.planes * group;
      const auto scores = [&](int box_rows) {
        return tile::make_tensor_map({memory<void>(plan_.scores + launch % 2 * plan_.score_bytes), 0, columns, rows * columns, 1,
                                      rows, of_queries.planes, columns, false},
                                     box_rows);
      };
      of_keys.score_gradients = scores(16);
      of_queries.score_gradients = scores(product.walked_rows);
      of_keys.leaves_scores = launch == 0 ? 1 : 2;
      of_keys.next = next++;
      of_queries.next = next++;
      add_tiles(keys, of_keys, Side::keys, Start::beside_predecessor);
      add_tiles(product, of_queries, Side::queries, Start::beside_predecessor);
    }
  }

  // Those of as many heads after the other as have room for their panels.
  void gradients_by_heads() {
    const BackwardKernel& kernel = plan_.owner_of_keys();
    BackwardArguments args = key_arguments(kernel);
    const int units = sizes_.kv_heads * plan_.parts;
    int* next = memory<int>(0);
    for (int first = 0; first < units; first += plan_.panel_units) {
      const bool last = first + plan_.panel_units >= units;
      args.first_plane = first;
      args.planes = std::min(plan_.panel_units, units - first);
      args.panels.first_head = first * args.group;
      args.next = next++;
      if (first > 0 && args.panels.has_heads) copy_bias(args.panels);
      add_tiles(kernel, args, Side::keys, first == 0 ? Start::beside_predecessor : Start::after_predecessor);
      if (last) round_gradients();
      if (args.wants_grad_bias)
        sum_bias_gradient(args.panels, {plan_.unit, args.planes * args.group, first == 0, last, memory<float>(plan_.panel_sums)});
    }
  }

  // Those of as many sequences or heads after the other as have room for their dS.
  void gradients_by_turns() {
    const BackwardKernel& kernel = plan_.owner_of_keys();
    BackwardArguments args = key_arguments(kernel);
    args.wants_grad_bias = true;
    const int of_unit = args.group, units = sizes_.heads / of_unit;
    const std::vector<ScoreTurn> turns = plan_.score_turns.list();
    int* next = memory<int>(0);
    for (const ScoreTurn& turn : turns) {
      args.first_plane = turn.first_sequence * units + turn.first_head / of_unit;
      args.planes = turn.sequences * turn.heads / of_unit;
      args.grad_bias = score_map(turn);
      args.next = next++;
      add_tiles(kernel, args, Side::keys, &turn == &turns.front() ? Start::beside_predecessor : Start::after_predecessor);
      if (&turn == &turns.back()) round_gradients();
      launches_.push_back(
          [this, turn] { sum_score_gradients(arguments_, kept_scores(), turn, memory<float>(plan_.score_sums), stream_); });
    }
  }

  CudaAttentionPlane kept_scores() const {
    return score_gradients(sizes_, plan_.score_turns.heads, memory<void>(plan_.bias_sums));
  }

  // Coordinates are those of all sequences and heads: its base lies as far before the memory as the turn's first plane among all.
  CUtensorMap score_map(const ScoreTurn& turn) const {
    CudaAttentionPlane plane = kept_scores();
    const auto address = reinterpret_cast<uintptr_t>(plane.data);
    const uintptr_t before =
        sizeof(uint16_t) * (turn.first_sequence * plane.sequence_stride + turn.first_head * plane.head_stride);
    if (before > address)
      throw std::runtime_error("attention: the first dS would lie below address 0, which the copy engine cannot describe");
    plane.data = reinterpret_cast<void*>(address - before);
    return bias_map(plane);
  }

  void copy_bias(const BiasPanels& panels) {
    const int units = sizes_.kv_heads * plan_.parts, of_unit = sizes_.heads / units;
    const int heads = panels.has_heads ? std::min(plan_.panel_units * of_unit, sizes_.heads - panels.first_head) : 1;
    launches_.push_back([this, panels, heads] { make_bias_panels(problem_, panels, plan_.unit, heads, stream_); });
  }

  void sum_bias_gradient(const BiasPanels& panels, const BiasSum& sum) {
    launches_.push_back([this, panels, sum] { add_bias_gradient(arguments_, panels, sum, stream_); });
  }

  void query_gradients() {
    const BackwardKernel& kernel = plan_.kernels.query_gradients;
    BackwardArguments args = common_;
    args.next = memory<int>(sizeof(int));
    use_list(args, plan_.query_list);
    args.q = map(problem_.q, Side::queries, sizes_.head_dim, kernel.owned_rows);
    args.grad_out = map(arguments_.grad_out, Side::queries, sizes_.value_dim, kernel.owned_rows);
    args.k = map(problem_.k, Side::keys, sizes_.head_dim, kernel.walked_rows);
    args.v = map(problem_.v, Side::keys, sizes_.value_dim, kernel.walked_rows);
    args.grad_q = map(arguments_.grad_q, Side::queries, sizes_.head_dim, 16);
    add_tiles(kernel, args, Side::queries, sizes_.key_rows > 0 ? Start::beside_predecessor : Start::after_predecessor);
  }

  // What all_gradients has summed up.
  void round_gradients() {
    round_query_gradients();
    if (plan_.parts > 1) round_key_gradients();
  }

  void round_query_gradients() {
    BackwardArguments args = common_;
    use_list(args, plan_.key_list);
    const int64_t tiles = max_tiles(sizes_, Side::queries, plan_.unit);
    add({round_query_gradients_kernel(), 256}, dim3(static_cast<unsigned>(tiles * sizes_.heads)), Start::beside_predecessor, args,
        element(), arguments_.grad_q, plan_.head_dim);
  }

  void round_key_gradients() {
    BackwardArguments args = common_;
    args.grad_k_rows = arguments_.grad_k;
    args.grad_v_rows = arguments_.grad_v;
    args.parts = plan_.parts;
    args.key_sums = memory<float>(plan_.key_sums);
    args.key_sums_rows = plan_.key_sums_rows;
    const int64_t pieces = args.key_sums_rows * plan_.head_dim / 4;
    add({round_key_gradients_kernel(), 256}, dim3(static_cast<unsigned>((pieces + 255) / 256), sizes_.kv_heads, 2),
        Start::after_predecessor, args, element(), plan_.head_dim);
  }

  void short_gradients() {
    const BackwardKernel& kernel = plan_.kernels.short_gradients;
    const int rows = kShortRows;
    ShortArguments args{};
    args.common = common_;
    use_list(args.common, plan_.short_list);
    args.common.q = map(problem_.q, Side::queries, sizes_.head_dim, rows);
    args.common.grad_out = map(arguments_.grad_out, Side::queries, sizes_.value_dim, rows);
    args.common.k = map(problem_.k, Side::keys, sizes_.head_dim, rows);
    args.common.v = map(problem_.v, Side::keys, sizes_.value_dim, rows);
    args.common.grad_q = map(arguments_.grad_q, Side::queries, sizes_.head_dim, 16);
    args.common.grad_k = map(arguments_.grad_k, Side::keys, sizes_.head_dim, 16);
    args.common.grad_v = map(arguments_.grad_v, Side::keys, sizes_.value_dim, 16);
    args.lse = problem_.lse;
    args.grad_lse = arguments_.grad_lse;
    args.grad_q = arguments_.grad_q;
    args.grad_k = arguments_.grad_k;
    args.grad_v = arguments_.grad_v;
    // It waits for nobody before it writes; round_key_gradients has written the same rows, from sums that nobody made.
    add(kernel, dim3(static_cast<unsigned>(std::min<int64_t>(multiprocessors(), int64_t{sizes_.batch} * sizes_.kv_heads))),
        plan_.parts > 1 ? Start::after_predecessor : Start::beside_predecessor, args);
  }

  Element element() const { return problem_.element == AttentionElement::bf16 ? Element::bf16 : Element::f16; }

  const AttentionBackward& arguments_;
  const CudaAttentionProblem& problem_ = arguments_.problem;
  const AttentionSizes& sizes_ = problem_.sizes;
  const BackwardPlan plan_{problem_, arguments_.grad_bias};
  const cudaStream_t stream_;
  BackwardArguments common_{};
  std::vector<std::function<void()>> launches_;
};

}  // namespace

tile::TensorMapShape plane_shape(const AttentionSizes& sizes, const CudaAttentionPlane& plane) {
  return {plane.data,
          plane.sequence_stride,
          plane.row_stride,
          plane.head_stride,
          plane.sequence_stride != 0 ? sizes.batch : 1,
          std::min<int64_t>(plane.rows, sizes.query_rows),
          plane.head_stride != 0 ? sizes.heads : 1,
          std::min<int64_t>(plane.columns, sizes.key_rows),
          false};
}

void run_backward(const AttentionBackward& arguments, cudaStream_t stream) { Pass(arguments, stream).run(); }

}  // namespace deckle::kernels::cuda::attention
