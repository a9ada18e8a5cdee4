#include "tests/kernels/cuda/attention_case.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "deckle/base/philox.h"
#include "deckle/kernels/cuda/attention/backward.h"
#include "deckle/kernels/cuda/attention/forward.h"
#include "deckle/kernels/cuda/attention/plan.h"
#include "deckle/kernels/cuda/attention/portable.h"
#include "deckle/kernels/cuda/attention/portable_decode.h"
#include "tests/support/seed.h"

namespace deckle::testing {
namespace {

constexpr int64_t kGuard = 1 << 16;  // bytes behind the workspace that nobody may write
constexpr uint16_t kNan = 0x7fff;    // not that of the poison, so that poison still means untouched

}  // namespace

std::string dims_of(AttentionElement element, int head_dim, int value_dim, const char* between) {
  return std::string(element == AttentionElement::bf16 ? "bf16" : "f16") + between + std::to_string(head_dim) +
         (head_dim == value_dim ? "" : between + std::to_string(value_dim));
}

std::string describe(const CaseOptions& o) {
  std::string text = dims_of(o.element, o.head_dim, o.value_dim, " ") + ", heads " + std::to_string(o.heads) + "/" +
                     std::to_string(o.kv_heads) + (o.ragged ? (o.planned ? ", ragged, planned" : ", ragged") : ", dense");
  for (size_t i = 0; i < o.queries.size() && i < 12; ++i)
    text += " " + std::to_string(o.queries[i]) + "x" + std::to_string(o.keys[i]);
  return text + ", window " + std::to_string(o.mask.left) + "," + std::to_string(o.mask.right) +
         (o.mask.bottom_right ? " bottom right" : " top left") + ", layout " + std::to_string(static_cast<int>(o.layout)) +
         (o.sinks ? ", sinks" : "") + (o.soft_cap != 0 ? ", cap " + std::to_string(o.soft_cap) : "") +
         (o.slopes ? ", slopes" : "") + (o.dropout.threshold != 0 ? ", dropout " + std::to_string(o.dropout.threshold) : "") +
         (o.bias_dims < 0 ? "" : ", bias " + std::to_string(o.bias_dims) + (o.ragged_bias ? " ragged" : "")) +
         (o.expanded_bias ? " expanded over rows" : "") + (o.bias_before_cap ? " before the cap" : "") +
         (o.far_biases.empty() ? "" : ", far biases" + std::string(o.far_gradients ? "" : " without gradients")) +
         (o.table_reach < 0 ? "" : ", table " + std::to_string(o.table_reach)) +
         (o.far_table == 0 ? "" : " of " + std::to_string(o.far_table)) +
         (o.ranges == 0 ? "" : ", ranges " + std::to_string(o.ranges)) +
         (o.mask_dims < 0 ? "" : ", bytes " + std::to_string(o.mask_dims)) + (o.spare.empty() ? "" : ", spare rows") +
         ", scale " + (o.scale ? std::to_string(*o.scale) : "1 / sqrt(head dim)") + ", seed " + std::to_string(seed());
}

CaseOptions random_options(CaseOptions o, std::mt19937_64& random) {
  const auto below = [&](int n) { return static_cast<int>(random() % n); };
  o.ragged = below(2) == 1;
  o.kv_heads = 1 + below(3);
  o.heads = o.kv_heads * (1 + below(3));
  o.grad_lse = below(2) == 1;
  o.layout = static_cast<Layout>(below(3));
  o.planned = o.ragged && below(2) == 1;
  o.mask.bottom_right = below(2) == 1;
  if (below(2) == 1) o.mask.left = below(300);
  if (below(2) == 1) o.mask.right = below(200) - 50;
  const int batch = 1 + below(4), queries = 1 + below(500), keys = 1 + below(500);
  for (int b = 0; b < batch; ++b) {
    o.queries.push_back(o.ragged ? below(400) : queries);
    o.keys.push_back(o.ragged ? below(400) : keys);
  }
  o.sinks = below(2) == 1;
  if (o.path == Path::portable) {
    if (below(3) == 0) o.soft_cap = 0.5f + static_cast<float>(below(20));
    o.slopes = below(3) == 0;
    if (below(3) == 0)
      o.dropout = {
          .threshold = 1 + below(200), .seed = random(), .offset = random(), .first_head = below(5), .first_row = 16 * below(9)};
    if (below(3) == 0) {
      o.bias_dims = below(16);
      o.ragged_bias = o.ragged && below(2) == 1;
      o.bias_before_cap = below(2) == 1;
    }
    if (below(4) == 0) o.table_reach = below(2) * below(300);
    if (below(4) == 0) o.ranges = 1 + below(4);
    if (below(4) == 0) o.mask_dims = below(16);
  }
  if (o.ragged && below(2) == 1) {
    for (int b = 0; b < batch; ++b) o.spare.push_back(below(2) * below(200));
  }
  return o;
}

CaseTensor CaseTensor::copy() const {
  CaseTensor other{view, rows, rows_per_batch, heads, columns, DeviceBuffer(memory.bytes())};
  other.view.data = other.memory.as<void>();
  if (memory.bytes() > 0) check(cudaMemcpy(other.view.data, view.data, memory.bytes(), cudaMemcpyDeviceToDevice), "cudaMemcpy");
  return other;
}

AttentionCase::AttentionCase(const CaseOptions& given) : options(given) {
  const auto batch = static_cast<int>(options.queries.size());
  for (int b = 0; b < batch; ++b) {
    query_starts_.push_back(query_starts_.back() + options.queries[b]);
    key_starts_.push_back(key_starts_.back() + options.keys[b] + (options.spare.empty() ? 0 : options.spare[b]));
  }
  problem.element = options.element;
  problem.mask = options.mask;
  problem.scale = options.scale.value_or(1.0f / std::sqrt(static_cast<float>(options.head_dim)));
  auto& sizes = problem.sizes;
  sizes.batch = batch;
  sizes.heads = options.heads;
  sizes.kv_heads = options.kv_heads;
  sizes.head_dim = options.head_dim;
  sizes.value_dim = options.value_dim;
  if (options.ragged) {  // rows behind the last sequence belong to nobody
    sizes.query_rows = query_starts_.back() + 5;
    sizes.key_rows = key_starts_.back() + 3;
    std::vector<int64_t> both = query_starts_;
    both.insert(both.end(), key_starts_.begin(), key_starts_.end());
    both.insert(both.end(), options.keys.begin(), options.keys.end());
    offsets_ = DeviceBuffer(static_cast<int64_t>(8 * both.size()));
    offsets_.upload(both);
    sizes.query_offsets = offsets_.as<int64_t>();
    sizes.key_offsets = sizes.query_offsets + batch + 1;
    for (const int rows : options.queries) sizes.most_queries = std::max(sizes.most_queries, rows);
    for (const int rows : options.keys) sizes.most_keys = std::max(sizes.most_keys, rows);
    if (!options.spare.empty()) sizes.key_lengths = sizes.key_offsets + batch + 1;
  } else {
    sizes.query_rows = batch > 0 ? options.queries[0] : 0;
    sizes.key_rows = batch > 0 ? options.keys[0] : 0;
  }
  q = make_tensor(false, options.head_dim);
  k = make_tensor(true, options.head_dim);
  v = make_tensor(true, options.value_dim);
  out = make_tensor(false, options.value_dim);
  const auto fill = [&](const CaseTensor& t, int stream, float magnitude) {
    fill_normal(options.element, t.view, t.rows, t.rows_per_batch, t.heads, t.columns, seed() + stream, magnitude);
  };
  fill(q, 1, options.magnitude);
  fill(k, 2, options.magnitude);
  fill(v, 3, 1);
  for (int b = 0; b < batch && !options.spare.empty(); ++b) {
    for (const CaseTensor* t : {&k, &v})
      fill_words(t->view, key_starts_[b] + options.keys[b], options.spare[b], t->heads, t->columns, kNan);
  }
  if (options.sinks) {
    sinks = DeviceBuffer(4 * sizes.heads);
    fill_normal(sinks.as<float>(), sizes.heads, seed() + 6, 4);
    problem.sinks = sinks.as<float>();
  }
  problem.soft_cap = options.soft_cap;
  problem.dropout = options.dropout;
  if (options.slopes) {
    slopes = DeviceBuffer(4 * sizes.heads);
    fill_normal(slopes.as<float>(), sizes.heads, seed() + 7, 0.05f);
    problem.slopes = slopes.as<float>();
  }
  if (options.dropout.threshold != 0) draw_dropout();
  take_planes();
  problem.q = q.view;
  problem.k = k.view;
  problem.v = v.view;
  problem.out = out.view;
  lse = DeviceBuffer(4 * sizes.heads * sizes.query_rows * (options.ragged ? 1 : batch));
  problem.lse = lse.as<float>();
}

CaseTensor AttentionCase::make_tensor(bool key_side, int columns) const {
  const auto& sizes = problem.sizes;
  const int64_t rows = key_side ? sizes.key_rows : sizes.query_rows;  // of a batch, and behind the last sequence
  CaseTensor t;
  t.rows = key_side ? key_starts_.back() : query_starts_.back();
  t.rows_per_batch = options.ragged ? std::max<int64_t>(t.rows, 1) : std::max<int64_t>(rows, 1);
  t.heads = key_side ? sizes.kv_heads : sizes.heads;
  t.columns = columns;
  const int padding = options.layout == Layout::padded ? 8 : 0;
  t.view.head_stride = columns + padding;
  t.view.row_stride = t.heads * t.view.head_stride + 3 * padding;
  if (options.layout == Layout::heads_outer) {
    t.view.row_stride = columns;
    t.view.head_stride = rows * columns;
  }
  const int64_t words = options.layout == Layout::heads_outer ? t.heads * t.view.head_stride : rows * t.view.row_stride;
  t.view.batch_stride = words + 8 * padding + options.batch_gap;
  const int64_t batches = options.ragged ? 1 : sizes.batch;
  t.memory = DeviceBuffer(words == 0 || batches == 0 ? 0 : 2 * ((batches - 1) * t.view.batch_stride + words));
  t.view.data = t.memory.as<void>();
  return t;
}

// Of `dims` and the sequences; the offsets of one that lies sequence by sequence are shared by all planes of a case.
kernels::CudaAttentionPlane AttentionCase::plane(int dims, bool by_sequence, int64_t& elements) {
  kernels::CudaAttentionPlane p;
  const bool rows = dims & 2, columns = dims & 1;
  const int64_t heads = dims & 4 ? options.heads : 1;
  if (by_sequence) {
    std::vector<int64_t> offsets;
    elements = 0;
    for (size_t b = 0; b < options.queries.size(); ++b) {
      offsets.push_back(elements);
      elements += heads * (rows ? options.queries[b] : 1) * (columns ? options.keys[b] : 1);
    }
    plane_offsets_ = DeviceBuffer(static_cast<int64_t>(8 * offsets.size()));
    plane_offsets_.upload(offsets);
    p.offsets = plane_offsets_.as<int64_t>();
    p.sequence_stride = 1;
    p.head_stride = dims & 4 ? 1 : 0;
    p.row_stride = rows;
    p.column_stride = columns;
    p.elements = elements;
    return p;
  }
  const auto longest = [](const std::vector<int>& lengths) {
    int most = 1;
    for (const int length : lengths) most = std::max(most, length);
    return most;
  };
  p.rows = rows ? longest(options.queries) + (options.ragged ? 2 : 0) : 1;
  p.columns = columns ? longest(options.keys) + (options.ragged ? 3 : 0) : 1;
  if (columns && options.path == Path::hopper) p.columns = (p.columns + 7) / 8 * 8;
  p.column_stride = columns;
  p.row_stride = rows ? p.columns : 0;
  p.head_stride = dims & 4 ? int64_t{p.rows} * p.columns : 0;
  p.sequence_stride = dims & 8 ? heads * p.rows * p.columns : 0;
  elements = (dims & 8 ? static_cast<int64_t>(options.queries.size()) : 1) * heads * p.rows * p.columns;
  return p;
}

void AttentionCase::spread_far_biases() {
  std::vector<uint16_t> words = bias.download<uint16_t>();
  const auto word = [&](int64_t row) {  // of bfloat16
    uint32_t bits;
    std::memcpy(&bits, &options.far_biases[static_cast<size_t>(row / 5) % options.far_biases.size()], sizeof bits);
    return static_cast<uint16_t>(bits >> 16);
  };
  const auto spread = [&](int64_t first, int64_t planes, int64_t rows, int64_t columns) {
    for (int64_t i = 0; i < planes * rows * columns; ++i) {
      const int64_t row = i / columns % rows, column = i % columns;
      if (is_far(row) || (row % 5 == 4 && (column > columns / 2 || column % 3 == 0))) words[first + i] = word(row);
    }
  };
  const int64_t heads = options.bias_dims & 4 ? options.heads : 1;
  if (problem.bias.offsets != nullptr) {
    const std::vector<int64_t> starts = plane_offsets_.download<int64_t>();
    for (size_t b = 0; b < starts.size(); ++b) spread(starts[b], heads, options.queries[b], options.keys[b]);
  } else {
    const int64_t rows = problem.bias.rows, columns = problem.bias.columns;
    if (!words.empty()) spread(0, static_cast<int64_t>(words.size()) / (rows * columns), rows, columns);
  }
  bias.upload(words);
}

// A bias, a table, ranges and a mask of bytes.
void AttentionCase::take_planes() {
  const auto& sizes = problem.sizes;
  if (options.bias_dims >= 0) {
    int64_t elements = 0;
    problem.bias = plane(options.bias_dims, options.ragged_bias, elements);
    if (options.expanded_bias) problem.bias.rows = static_cast<int32_t>(problem.sizes.query_rows);
    problem.bias_before_cap = options.bias_before_cap;
    bias = DeviceBuffer(2 * elements);
    fill_normal(options.element, {bias.as<void>(), 0, 1, 1}, elements, std::max<int64_t>(elements, 1), 1, 1, seed() + 8, 2);
    problem.bias.data = bias.as<void>();
    const uint16_t minus_infinity = options.element == AttentionElement::bf16 ? 0xff80 : 0xfc00;
    if (options.dead_row >= 0)
      fill_words({bias.as<void>(), 0, problem.bias.row_stride, 1}, options.dead_row, 1, 1, problem.bias.columns, minus_infinity);
    if (!options.far_biases.empty()) spread_far_biases();
  }
  if (options.table_reach >= 0) {
    problem.table_reach = options.table_reach;
    table = DeviceBuffer(4 * sizes.heads * (2 * problem.table_reach + 1));
    fill_normal(table.as<float>(), table.bytes() / 4, seed() + 9, 2);
    if (options.far_table != 0) {
      std::vector<float> entries = table.download<float>();
      const int64_t columns = 2 * problem.table_reach + 1;
      std::fill_n(entries.begin(), columns, options.far_table);
      if (options.heads > 1)
        std::fill_n(entries.begin() + columns, std::max<int64_t>(problem.table_reach - 10, 0), options.far_table);
      table.upload(entries);
    }
    problem.table = table.as<float>();
  }
  if (options.ranges == 0 && options.mask_dims < 0) return;
  std::mt19937_64 random(seed() + 10);
  const auto below = [&](int n) { return n <= 0 ? 0 : static_cast<int>(random() % static_cast<unsigned>(n)); };
  std::vector<int32_t> bounds;
  if (options.ranges > 0) {
    for (size_t b = 0; b < options.queries.size(); ++b) {
      for (int row = 0; row < options.queries[b]; ++row) {
        const bool none = row % 7 == 3 || (row > 64 && row < 200 && b == 0);
        int begin = 0;
        for (int r = 0; r < options.ranges; ++r) {
          const int first = begin + below(options.keys[b] / options.ranges - begin % 3),
                    last = std::min(options.keys[b], first + 1 + below(90));
          const bool empty = none || first >= last || below(5) == 0;
          bounds.push_back(empty ? 0 : first);
          bounds.push_back(empty ? 0 : last);
          if (!empty) begin = last;
        }
      }
    }
    bounds_ = DeviceBuffer(static_cast<int64_t>(4 * std::max<size_t>(bounds.size(), 2)));
    bounds_.upload(bounds);
    problem.ranges = {bounds_.as<int32_t>(), options.ranges};
  }
  std::vector<uint8_t> bytes;
  if (options.mask_dims >= 0) {
    int64_t elements = 0;
    problem.forbidden = plane(options.mask_dims, false, elements);
    for (int64_t i = 0; i < elements; ++i)
      bytes.push_back(random() % 4 != 0 && i / std::max(1, problem.forbidden.columns) % 9 != 4);
    bytes_ = DeviceBuffer(elements);
    bytes_.upload(bytes);
    problem.forbidden.data = bytes_.as<void>();
  }
  for (size_t b = 0; b < options.queries.size(); ++b) {
    const int64_t queries = options.queries[b], keys = options.keys[b];
    sees_.emplace_back();
    for (int64_t head = 0; head < options.heads; ++head) {
      for (int64_t row = 0; row < queries; ++row) {
        const int64_t center = row + (options.mask.bottom_right ? keys - queries : 0);
        bool sees = false;
        for (int64_t key = std::max<int64_t>(0, center - options.mask.left);
             key < keys && key <= center + options.mask.right && !sees; ++key) {
          const auto& m = problem.forbidden;
          sees = options.mask_dims < 0 || bytes[static_cast<int64_t>(b) * m.sequence_stride + head * m.head_stride +
                                                row * m.row_stride + key * m.column_stride] != 0;
          if (options.ranges == 0) continue;
          bool within = false;
          for (int r = 0; r < options.ranges; ++r) {
            const int64_t at = 2 * ((query_starts_[b] + row) * options.ranges + r);
            within = within || (key >= bounds[at] && key < bounds[at + 1]);
          }
          sees = sees && within;
        }
        sees_.back().push_back(sees);
      }
    }
  }
}

// By the definition in docs/attention.md, with the generator of the CPU's kernels.
void AttentionCase::draw_dropout() {
  const AttentionDropout& d = options.dropout;
  const auto low = [](uint64_t x) { return static_cast<uint32_t>(x); };
  const auto key = Philox<10>::generate({low(d.offset), low(d.offset >> 32), 0x44524F50u, 0}, low(d.seed), low(d.seed >> 32));
  std::vector<uint8_t> keep;
  std::vector<int64_t> starts;
  for (size_t b = 0; b < options.queries.size(); ++b) {
    starts.push_back(static_cast<int64_t>(keep.size()));
    for (int64_t h = 0; h < options.heads; ++h) {
      const int64_t rows = options.queries[b], columns = options.keys[b];
      const size_t first = keep.size();
      keep.resize(first + rows * columns);
      uint8_t* const of_head = keep.data() + first;
      // A call of the generator serves 16 elements: rows 8 and columns 8 apart, and their neighbours.
      for (int64_t n = 0; n < (rows + 15) / 16 * 4; ++n) {
        for (int64_t m = 0; m < (columns + 15) / 16 * 4; ++m) {
          const int64_t row = n / 4 * 16 + n % 4 * 2, column = m / 4 * 16 + m % 4 * 2;
          const int64_t call = (h + d.first_head) << 4 | (n & 3) << 2 | (m & 3);
          const auto words = Philox<7>::generate(
              {low((row + d.first_row) >> 4), low((column + d.first_column) >> 4), low(call), low(b + d.first_sequence)}, key[0],
              key[1]);
          for (int e = 0; e < 16; ++e) {
            const int right = e & 1, below = e >> 1 & 1, half = e >> 2 & 1, eight = e >> 3;
            const int64_t i = row + below + 8 * half, j = column + right + 8 * eight;
            if (i >= rows || j >= columns) continue;
            of_head[i * columns + j] =
                static_cast<int>(words[below + 2 * right] >> (8 * (half + 2 * eight)) & 0xff) >= d.threshold;
          }
        }
      }
    }
  }
  keep_ = DeviceBuffer(static_cast<int64_t>(keep.size()));
  keep_.upload(keep);
  keep_starts_ = DeviceBuffer(static_cast<int64_t>(8 * starts.size()));
  keep_starts_.upload(starts);
}

void AttentionCase::take_workspace(int64_t bytes) {
  workspace_ = DeviceBuffer(bytes + kGuard);
  workspace_.poison();
  problem.workspace = workspace_.as<void>();
  problem.workspace_bytes = bytes;
}

void AttentionCase::check_guard() const {
  const auto* words = workspace_.as<uint16_t>() + problem.workspace_bytes / 2;
  if (count_words(words, kGuard / 2, 0xffff) != kGuard / 2) throw std::runtime_error("written behind the workspace");
}

void AttentionCase::replace_offsets(const std::vector<int64_t>& queries, const std::vector<int64_t>& keys) {
  std::vector<int64_t> both = queries;
  both.insert(both.end(), keys.begin(), keys.end());
  offsets_.upload(both);
}

void AttentionCase::make_plan() {
  if (!options.planned || options.path != Path::hopper || problem.plan != nullptr) return;
  plan_ = DeviceBuffer(kernels::cuda::attention_plan_bytes(problem));
  kernels::cuda::attention_make_plan(problem, plan_.as<void>(), nullptr);
  problem.plan = plan_.as<void>();
}

void AttentionCase::forward() {
  make_plan();
  out.memory.poison();
  lse.poison();
  if (options.path == Path::hopper) {
    take_workspace(kernels::cuda::attention_forward_workspace_bytes(problem));
    kernels::cuda::attention_forward(problem, nullptr);
  } else if (options.path == Path::decode) {
    take_workspace(kernels::cuda::attention_decode_workspace_bytes(problem));
    kernels::cuda::attention_decode(problem, nullptr);
  } else {
    kernels::cuda::portable_attention_forward(problem, nullptr);
  }
  check(cudaDeviceSynchronize(), "forward");
  if (options.path != Path::portable) check_guard();
}

void AttentionCase::backward() {
  make_plan();
  for (CaseTensor* t : {&grad_q, &grad_k, &grad_v}) t->memory.poison();
  grad_sinks.poison();
  grad_slopes.poison();
  grad_table.poison();
  grad_bias.poison();
  if (options.path == Path::hopper) {
    take_workspace(kernels::cuda::attention_backward_workspace_bytes(arguments));
    kernels::cuda::attention_backward(arguments, nullptr);
  } else {
    take_workspace(kernels::cuda::portable_attention_backward_workspace_bytes(arguments));
    kernels::cuda::portable_attention_backward(arguments, nullptr);
  }
  check(cudaDeviceSynchronize(), "backward");
  check_guard();
}

ReferenceForward AttentionCase::exact() const {
  return {reference_out.as<double>(), reference_lse.as<double>(), keep_.as<uint8_t>(), keep_starts_.as<int64_t>(),
          !options.far_biases.empty() || options.far_table != 0};
}

void AttentionCase::reference() {
  reference_out = DeviceBuffer(8 * std::max<int64_t>(out.elements(), 1));
  reference_lse = DeviceBuffer(2 * std::max<int64_t>(lse.bytes(), 1));
  reference_forward(problem, exact());
  check(cudaDeviceSynchronize(), "reference of the forward");
}

void AttentionCase::take_gradients() {
  grad_out = make_tensor(false, options.value_dim);
  grad_q = make_tensor(false, options.head_dim);
  grad_k = make_tensor(true, options.head_dim);
  grad_v = make_tensor(true, options.value_dim);
  grad_lse = DeviceBuffer(lse.bytes());
  fill_normal(options.element, grad_out.view, grad_out.rows, grad_out.rows_per_batch, grad_out.heads, grad_out.columns,
              seed() + 4, 1);
  fill_normal(grad_lse.as<float>(), grad_lse.bytes() / 4, seed() + 5, 1);
  for (size_t b = 0; b < options.queries.size() && !options.far_gradients; ++b) {
    kernels::AttentionTensor t = grad_out.view;
    if (!options.ragged) t.data = static_cast<uint16_t*>(t.data) + static_cast<int64_t>(b) * t.batch_stride;
    for (int64_t row = 0; row < options.queries[b]; ++row) {
      if (is_far(row)) fill_words(t, (options.ragged ? query_starts_[b] : 0) + row, 1, grad_out.heads, grad_out.columns, 0);
    }
  }
  arguments.grad_out = grad_out.view;
  arguments.grad_lse = options.grad_lse ? grad_lse.as<float>() : nullptr;
  arguments.grad_q = grad_q.view;
  arguments.grad_k = grad_k.view;
  arguments.grad_v = grad_v.view;
  grad_sinks = DeviceBuffer(options.sinks ? 4 * problem.sizes.heads : 0);
  grad_slopes = DeviceBuffer(options.slopes ? 4 * problem.sizes.heads : 0);
  arguments.grad_sinks = grad_sinks.as<float>();
  arguments.grad_slopes = grad_slopes.as<float>();
  grad_table = DeviceBuffer(table.bytes());
  arguments.grad_table = grad_table.as<float>();
  int64_t elements = bias.bytes() / 2;
  arguments.grad_bias = options.expanded_bias ? plane(options.bias_dims | 2, false, elements) : problem.bias;
  grad_bias = DeviceBuffer(options.grad_bias ? 2 * elements : 0);
  reference_bias = DeviceBuffer(16 * elements);
  arguments.grad_bias.data = grad_bias.as<void>();
}

void AttentionCase::prepare_backward(bool given_forward) {
  take_gradients();
  reference();
  store_forward(problem, exact());
  if (given_forward) load_forward(problem, exact());
  reference_q = DeviceBuffer(8 * grad_q.elements());
  reference_k = DeviceBuffer(8 * grad_k.elements());
  reference_v = DeviceBuffer(8 * grad_v.elements());
  reference_sinks = DeviceBuffer(16 * problem.sizes.heads);
  reference_slopes = DeviceBuffer(16 * problem.sizes.heads);
  reference_table = DeviceBuffer(16 * problem.sizes.heads * (2 * problem.table_reach + 1));
  reference_backward(
      arguments, exact(),
      {reference_q.as<double>(), reference_k.as<double>(), reference_v.as<double>(), reference_sinks.as<double>(),
       reference_slopes.as<double>(), reference_table.as<double>(), reference_bias.as<double>(), reference_bias.bytes() / 16});
  check(cudaDeviceSynchronize(), "reference of the backward");
}

int64_t AttentionCase::first_row(const CaseTensor& t, int sequence) const {
  return (is_key_side(t) ? key_starts_ : query_starts_)[sequence];
}

int64_t AttentionCase::length(const CaseTensor& t, int sequence) const {
  return (is_key_side(t) ? options.keys : options.queries)[sequence];
}

void AttentionCase::overwrite(const CaseTensor& t, int sequence, uint16_t word) const {
  fill_words(t.view, first_row(t, sequence), length(t, sequence), t.heads, t.columns, word);
}

void AttentionCase::poison_dead_rows() const {
  const AttentionWindow& mask = options.mask;
  for (size_t b = 0; b < options.queries.size(); ++b) {
    const int64_t queries = options.queries[b], keys = options.keys[b];
    kernels::AttentionTensor t = grad_out.view;
    if (!options.ragged) t.data = static_cast<uint16_t*>(t.data) + static_cast<int64_t>(b) * t.batch_stride;
    if (options.dead_row >= 0 && (b == 0 || problem.bias.sequence_stride == 0))
      fill_words(t, (options.ragged ? query_starts_[b] : 0) + options.dead_row, 1,
                 problem.bias.head_stride == 0 ? grad_out.heads : 1, grad_out.columns, kNan);
    for (int64_t row = 0; row < queries; ++row) {
      if (!sees_.empty()) {
        for (int64_t head = 0; head < options.heads; ++head) {
          kernels::AttentionTensor of_head = t;
          of_head.data = static_cast<uint16_t*>(t.data) + head * t.head_stride;
          if (sees_[b][head * queries + row] == 0)
            fill_words(of_head, (options.ragged ? query_starts_[b] : 0) + row, 1, 1, grad_out.columns, kNan);
        }
        continue;
      }
      const int64_t center = row + (mask.bottom_right ? keys - queries : 0);
      const bool dead = keys == 0 || center - mask.left > keys - 1 || center + mask.right < 0 || -int64_t{mask.left} > mask.right;
      if (dead) fill_words(t, (options.ragged ? query_starts_[b] : 0) + row, 1, grad_out.heads, grad_out.columns, kNan);
    }
  }
}

}  // namespace deckle::testing
