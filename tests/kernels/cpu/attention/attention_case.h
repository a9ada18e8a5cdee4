#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "deckle/base/check.h"
#include "deckle/kernels/args/attention.h"
#include "tests/support/seed.h"

namespace deckle::testing {

using Random = std::mt19937_64;

inline int64_t draw(Random& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}
inline bool chance(Random& random, double probability) { return std::uniform_real_distribution<double>()(random) < probability; }

template <typename Choices>
auto pick(Random& random, const Choices& choices) {
  return choices[draw(random, 0, static_cast<int64_t>(std::size(choices)) - 1)];
}

/// Largest permitted error relative to the largest value (or to single terms, where these cancel); docs/attention.md shows this
/// table.
struct Tolerances {
  DType dtype;
  double result;      // out and its tangent
  double gradient;    // of q, k and v; Delta comes from the rounded out, an error that a whole row shares
  double statistics;  // log-sum-exp and its tangents, which never pass through a rounded operand
  double second;      // tangents of gradients, mixed derivatives
};
inline constexpr Tolerances kTolerances[] = {
    {DType::float64, 1e-13, 1e-13, 1e-13, 3e-13},
    {DType::float32, 1e-5, 1e-5, 3e-6, 6e-5},
    {DType::float16, 2e-3, 6e-3, 3e-6, 3e-3},
    {DType::bfloat16, 1.5e-2, 4e-2, 3e-6, 2e-2},
};
inline const Tolerances& tolerances(DType dtype) {
  return *std::find_if(std::begin(kTolerances), std::end(kTolerances), [&](const Tolerances& t) { return t.dtype == dtype; });
}

/// Returns `error`; the largest of each kind is printed at the end of a long run, for the table of docs/attention.md.
inline double noted(DType dtype, const char* what, double error) {
  struct Largest {
    std::map<std::pair<std::string, std::string>, double> errors;
    ~Largest() {
      if (std::getenv("DECKLE_TEST_COMBINATIONS") == nullptr) return;
      for (const auto& [key, value] : errors) fmt::print("largest error of {} in {}: {:.1e}\n", key.first, key.second, value);
    }
  };
  static Largest largest;
  double& known = largest.errors[{what, std::string(name(dtype))}];
  known = std::max(known, error);
  return error;
}

/// Numbers of a dtype in memory, read and written as double.
class Buffer {
 public:
  Buffer() = default;
  Buffer(DType dtype, int64_t count) : dtype_(dtype), bytes_(static_cast<size_t>(count * item_size(dtype)), std::byte{0xff}) {}

  static Buffer normal(DType dtype, int64_t count, Random& random, double deviation = 1.0) {
    Buffer buffer(dtype, count);
    std::normal_distribution<double> values(0.0, deviation);
    for (int64_t i = 0; i < count; ++i) buffer.put(i, values(random));
    return buffer;
  }

  int64_t count() const { return static_cast<int64_t>(bytes_.size()) / item_size(dtype_); }
  DType dtype() const { return dtype_; }
  void* data() const { return bytes_.empty() ? nullptr : const_cast<std::byte*>(bytes_.data()); }
  double get(int64_t i) const {
    return visit_floating(
        dtype_, [&](auto tag) { return static_cast<double>(static_cast<const typename decltype(tag)::type*>(data())[i]); });
  }
  void put(int64_t i, double value) {
    visit_floating(dtype_, [&](auto tag) {
      using T = typename decltype(tag)::type;
      if constexpr (sizeof(T) == 2) {
        static_cast<T*>(data())[i] = T(static_cast<float>(value));
      } else {
        static_cast<T*>(data())[i] = static_cast<T>(value);
      }
    });
  }
  Buffer as(DType dtype) const {
    Buffer copy(dtype, count());
    for (int64_t i = 0; i < count(); ++i) copy.put(i, get(i));
    return copy;
  }
  bool operator==(const Buffer& other) const { return bytes_ == other.bytes_; }

 private:
  DType dtype_ = DType::float32;
  std::vector<std::byte> bytes_;
};

inline DType statistics_dtype(DType dtype) { return dtype == DType::float64 ? DType::float64 : DType::float32; }

/// Largest difference over the largest magnitude of `expected` (at least `floor`); infinities and NaN must agree.
inline double relative_error(const Buffer& got, const Buffer& expected, double floor = 1e-3) {
  double largest = floor, difference = 0.0;
  for (int64_t i = 0; i < expected.count(); ++i) {
    const double a = got.get(i), b = expected.get(i);
    if (std::isfinite(b)) largest = std::max(largest, std::abs(b));
    if (std::isfinite(a) && std::isfinite(b)) {
      difference = std::max(difference, std::abs(a - b));
    } else if (!(a == b || (std::isnan(a) && std::isnan(b)))) {
      return std::numeric_limits<double>::infinity();
    }
  }
  return difference / largest;
}

/// Storage behind an AttentionOperands: values, a tangent, or a gradient.
struct Operands {
  Buffer q, k, v, bias, slopes, sinks, table;
  AttentionOperands view;
};

/// Storage behind an AttentionResults.
struct Results {
  Buffer out, lse;
  AttentionResults view;
};

/// A problem with its storage. Fill in `problem`, the lengths and the options, then call layout().
struct AttentionCase {
  AttentionProblem problem;
  std::vector<int64_t> q_offsets{0}, k_offsets{0}, k_lengths, bias_offsets;
  std::vector<int32_t> ranges;
  std::vector<uint8_t> mask;
  bool heads_first = false;  // [H, T, D] in place of [T, H, D]
  bool has_bias = false, has_slopes = false, has_sinks = false, has_table = false;
  AttentionPlane bias;  // strides; the data is each Operands' own
  int64_t bias_size = 0;

  bool spare_keys = false;  // some sequences have rows of k and v behind their keys
  void add_sequence(int64_t rows, int64_t keys, int64_t spare = 0) {
    q_offsets.push_back(q_offsets.back() + rows);
    k_offsets.push_back(k_offsets.back() + keys + spare);
    k_lengths.push_back(keys);
    spare_keys = spare_keys || spare > 0;
  }
  void layout() {
    problem.sequences = static_cast<int64_t>(q_offsets.size()) - 1;
    problem.q_offsets = q_offsets.data();
    problem.k_offsets = k_offsets.data();
    problem.k_lengths = spare_keys ? k_lengths.data() : nullptr;
    problem.ranges.bounds = ranges.empty() ? nullptr : ranges.data();
    problem.mask.data = mask.empty() ? nullptr : mask.data();
    problem.bias_offsets = bias_offsets.empty() ? nullptr : bias_offsets.data();
  }

  AttentionRows rows(const Buffer& buffer, int64_t total, int64_t heads, int64_t width) const {
    if (heads_first) return {buffer.data(), width, total * width};
    return {buffer.data(), heads * width, width};
  }
  /// About the size of one term of a sum over keys or rows of unit-normal numbers.
  double term() const { return problem.dropout.threshold % 256 == 0 ? 1.0 : 256.0 / (256 - problem.dropout.threshold); }
  /// The same of a sum for the slopes' gradient, whose terms are weighted by distances: a third of the longest sequence on
  /// average.
  double slope_term() const {
    int64_t longest = 3;
    for (int64_t b = 0; b < problem.sequences; ++b) longest = std::max({longest, problem.rows(b), problem.keys(b)});
    return term() * static_cast<double>(longest) / 3;
  }
  int64_t total_rows() const { return q_offsets.back(); }
  int64_t total_keys() const { return k_offsets.back(); }

  template <typename Make>
  Operands operands(DType dtype, Make make) const {
    const AttentionProblem& p = problem;
    const DType statistics = statistics_dtype(dtype);
    Operands o;
    o.q = make(dtype, total_rows() * p.heads * p.head_dim);
    o.k = make(dtype, total_keys() * p.kv_heads * p.head_dim);
    o.v = make(dtype, total_keys() * p.kv_heads * p.value_dim);
    if (has_bias) o.bias = make(dtype, bias_size);
    if (has_slopes) {  // small: with logits of hundreds the rounding of lse would dominate
      o.slopes = make(statistics, p.heads);
      for (int64_t h = 0; h < p.heads; ++h) o.slopes.put(h, 0.1 * o.slopes.get(h));
    }
    if (has_sinks) o.sinks = make(statistics, p.heads);
    if (has_table) o.table = make(statistics, p.heads * (2 * p.table_reach + 1));
    bind(o);
    return o;
  }
  template <typename Make>
  Results results(DType dtype, Make make) const {
    Results r;
    r.out = make(dtype, total_rows() * problem.heads * problem.value_dim);
    r.lse = make(statistics_dtype(dtype), total_rows() * problem.heads);
    bind(r);
    return r;
  }
  void bind(Operands& o) const {
    o.view.q = rows(o.q, total_rows(), problem.heads, problem.head_dim);
    o.view.k = rows(o.k, total_keys(), problem.kv_heads, problem.head_dim);
    o.view.v = rows(o.v, total_keys(), problem.kv_heads, problem.value_dim);
    o.view.bias = bias;
    o.view.bias.data = o.bias.data();
    o.view.slopes = o.slopes.data();
    o.view.sinks = o.sinks.data();
    o.view.table = o.table.data();
  }
  void bind(Results& r) const {
    r.view.out = rows(r.out, total_rows(), problem.heads, problem.value_dim);
    r.view.lse = r.lse.data();
  }

  auto normal(Random& random) const {
    return [&random](DType dtype, int64_t count) { return Buffer::normal(dtype, count, random); };
  }
  /// 0xff bytes: NaN in every floating type.
  static Buffer poisoned(DType dtype, int64_t count) { return Buffer(dtype, count); }

  /// The same numbers in float64, for the reference.
  AttentionCase wide() const {
    AttentionCase copy = *this;
    copy.problem.dtype = DType::float64;
    copy.layout();
    return copy;
  }
  Operands widen(const Operands& o) const {
    Operands w{o.q.as(DType::float64),      o.k.as(DType::float64),     o.v.as(DType::float64),     o.bias.as(DType::float64),
               o.slopes.as(DType::float64), o.sinks.as(DType::float64), o.table.as(DType::float64), {}};
    bind(w);
    return w;
  }
  Results widen(const Results& r) const {
    Results w{r.out.as(DType::float64), r.lse.as(DType::float64), {}};
    bind(w);
    return w;
  }
};

inline std::string describe(const AttentionCase& c) {
  const AttentionProblem& p = c.problem;
  std::string lengths;
  for (int64_t b = 0; b < p.sequences; ++b)
    lengths += fmt::format(" {}x{}{}", p.rows(b), p.keys(b),
                           c.spare_keys ? fmt::format("of{}", p.k_offsets[b + 1] - p.k_offsets[b]) : "");
  return fmt::format(
      "{} lengths{} heads {}/{} D {} Dv {} scale {:.3f} {}{} window {},{} ranges {} mask {} bias {}{} slopes {} sinks {} table "
      "{} "
      "cap {:.2f} dropout {}{}",
      name(p.dtype), lengths, p.heads, p.kv_heads, p.head_dim, p.value_dim, p.scale,
      p.alignment == AttentionAlignment::top_left ? "top-left" : "bottom-right", p.causal ? " causal" : "", p.window_left,
      p.window_right, p.ranges.bounds ? p.ranges.count : 0, p.mask.data != nullptr, c.has_bias,
      p.bias_before_cap ? " before cap" : "", c.has_slopes, c.has_sinks, c.has_table ? p.table_reach : -1, p.soft_cap,
      p.dropout.threshold, c.heads_first ? " heads first" : "");
}

/// Which features a case has, without their numbers.
inline std::string features_of(const AttentionCase& c) {
  const AttentionProblem& p = c.problem;
  std::string text(name(p.dtype));
  const auto add = [&](bool has, const char* feature) { text += has ? std::string(" ") + feature : ""; };
  add(p.alignment == AttentionAlignment::top_left, "top-left"), add(p.causal, "causal"), add(p.window_left >= 0, "left"),
      add(p.window_right >= 0, "right");
  add(p.ranges.bounds != nullptr && p.ranges.count == 1, "range"),
      add(p.ranges.bounds != nullptr && p.ranges.count > 1, "ranges");
  add(p.mask.data != nullptr, "mask"), add(c.has_bias, "bias"), add(c.has_bias && p.bias_before_cap, "before"),
      add(p.bias_offsets != nullptr, "ragged-bias");
  add(c.has_bias && c.bias.head_stride == 0, "heads-alike"), add(c.has_bias && c.bias.row_stride == 0, "rows-alike"),
      add(c.has_bias && c.bias.column_stride == 0, "keys-alike");
  add(c.has_slopes, "slopes"), add(c.has_sinks, "sinks"), add(c.has_table, "table"), add(p.soft_cap != 0, "cap"),
      add(p.dropout.threshold != 0, "dropout");
  add(p.heads != p.kv_heads, "shared-keys"), add(p.head_dim != p.value_dim, "other-value-dim"), add(c.heads_first, "heads-first"),
      add(c.spare_keys, "spare-keys");
  return text;
}

/// Cases of combinations of features that have not come up before.
class DistinctCases {
 public:
  template <typename Draw>
  AttentionCase next(Draw&& draw_case) {
    for (;;) {
      AttentionCase c = draw_case();
      c.layout();  // its vectors have moved
      if (seen_.insert(features_of(c)).second) return c;
    }
  }

 private:
  std::set<std::string> seen_;
};

/// Lengths of the i-th random case: long enough, now and then, for several blocks of rows and of keys, and chunks of keys.
inline int64_t longest_of(int i) { return i % 100 == 7 ? 600 : i % 10 == 0 ? 150 : 45; }

/// Shapes, masks of formulas, scales: what every kernel takes. Long ones are narrow, for the reference's sake.
inline AttentionCase random_plain_case(Random& random, DType dtype, int64_t longest) {
  AttentionCase c;
  AttentionProblem& p = c.problem;
  p.dtype = dtype;
  const bool narrow = longest > 256;
  const int64_t sequences = narrow ? draw(random, 1, 2) : draw(random, 0, 4);
  const bool square = chance(random, 0.4), spare = chance(random, 0.2);
  for (int64_t b = 0; b < sequences; ++b) {
    const auto length = [&] { return chance(random, 0.1) ? 0 : draw(random, narrow ? longest / 2 : 1, longest); };
    const int64_t rows = length(), keys = length();
    c.add_sequence(rows, square ? rows : keys, spare ? draw(random, 0, 9) : 0);
  }
  p.kv_heads = narrow ? 1 : draw(random, 1, 2);
  p.heads = p.kv_heads * draw(random, 1, narrow ? 2 : 3);
  const std::vector<int64_t> dims = narrow ? std::vector<int64_t>{1, 3, 8} : std::vector<int64_t>{1, 3, 8, 16, 24, 33, 40, 64};
  p.head_dim = pick(random, dims);
  p.value_dim = chance(random, 0.5) ? p.head_dim : pick(random, dims);
  const double scales[] = {1.0 / std::sqrt(static_cast<double>(p.head_dim)), 0.3, -0.2, 0.0};
  p.scale = scales[chance(random, 0.6) ? 0 : draw(random, 1, 3)];
  p.alignment = chance(random, 0.5) ? AttentionAlignment::top_left : AttentionAlignment::bottom_right;
  p.causal = chance(random, 0.4);
  if (chance(random, 0.3)) p.window_left = draw(random, 0, 40);
  if (chance(random, 0.3)) p.window_right = draw(random, 0, 40);
  c.heads_first = chance(random, 0.3);
  c.layout();
  return c;
}

/// Adds options, each with its own chance: every combination comes up.
inline void add_random_features(Random& random, AttentionCase& c) {
  AttentionProblem& p = c.problem;
  int64_t longest_rows = 0, longest_keys = 0;
  for (int64_t b = 0; b < p.sequences; ++b)
    longest_rows = std::max(longest_rows, p.rows(b)), longest_keys = std::max(longest_keys, p.keys(b));
  const bool ragged_planes = chance(random, 0.4);
  const bool plane_per_head = chance(random, 0.5), plane_per_row = chance(random, 0.7), plane_per_key = chance(random, 0.7),
             plane_per_sequence = chance(random, 0.5);
  int64_t plane_size = 0;
  AttentionPlane plane;
  if (ragged_planes) {
    plane = {nullptr, 0, plane_per_head, plane_per_row, plane_per_key};
    for (int64_t b = 0; b < p.sequences; ++b) {
      c.bias_offsets.push_back(plane_size);
      plane_size += (plane_per_head ? p.heads : 1) * (plane_per_row ? p.rows(b) : 1) * (plane_per_key ? p.keys(b) : 1);
    }
  } else {
    const int64_t columns = plane_per_key ? longest_keys : 1, rows = plane_per_row ? longest_rows : 1,
                  heads = plane_per_head ? p.heads : 1;
    plane = {nullptr, plane_per_sequence ? heads * rows * columns : 0, plane_per_head ? rows * columns : 0,
             plane_per_row ? columns : 0, plane_per_key};
    plane_size = (plane_per_sequence ? p.sequences : 1) * heads * rows * columns;
  }
  if (chance(random, 0.4)) {
    c.has_bias = true;
    c.bias = plane;
    c.bias_size = plane_size;
    p.bias_before_cap = chance(random, 0.5);
  }
  if (chance(random, 0.3)) {
    const bool per_head = chance(random, 0.5), per_row = chance(random, 0.7), per_key = chance(random, 0.7),
               per_sequence = chance(random, 0.5);
    const int64_t columns = per_key ? longest_keys : 1, rows = per_row ? longest_rows : 1, heads = per_head ? p.heads : 1;
    p.mask = {nullptr, per_sequence ? heads * rows * columns : 0, per_head ? rows * columns : 0, per_row ? columns : 0, per_key};
    c.mask.resize(static_cast<size_t>(std::max<int64_t>((per_sequence ? p.sequences : 1) * heads * rows * columns, 1)));
    for (auto& m : c.mask) m = chance(random, 0.7);
  }
  c.has_slopes = chance(random, 0.3);
  c.has_sinks = chance(random, 0.3);
  if (chance(random, 0.3)) {
    c.has_table = true;
    p.table_reach = draw(random, 0, 40);
  }
  if (chance(random, 0.3)) p.soft_cap = 0.5 + static_cast<double>(draw(random, 0, 30)) / 10;
  if (chance(random, 0.3)) {
    const int thresholds[] = {26, 77, 128, 255, 256};
    p.dropout.threshold = pick(random, thresholds);
    p.dropout.seed = random();
    p.dropout.offset = random();
    if (chance(random, 0.5)) {
      p.dropout.first_sequence = draw(random, 0, 9), p.dropout.first_head = draw(random, 0, 9);
      p.dropout.first_row = draw(random, 0, 99), p.dropout.first_column = draw(random, 0, 99);
    }
  }
  if (chance(random, 0.25)) {
    p.ranges.count = static_cast<int>(draw(random, 1, 3));
    for (int64_t b = 0; b < p.sequences; ++b) {
      for (int64_t i = 0; i < p.rows(b); ++i) {
        int64_t at = 0;
        for (int r = 0; r < p.ranges.count; ++r) {
          const int64_t begin = std::min(p.keys(b), at + draw(random, 0, 1 + p.keys(b) / 3)),
                        end = std::min(p.keys(b), begin + draw(random, 0, 1 + p.keys(b) / 2));
          const bool empty = begin >= end;
          c.ranges.push_back(empty ? 0 : static_cast<int32_t>(begin));
          c.ranges.push_back(empty ? 0 : static_cast<int32_t>(end));
          if (!empty) at = end;
        }
      }
    }
    if (c.ranges.empty()) p.ranges.count = 0;
  }
  c.layout();
}

}  // namespace deckle::testing
