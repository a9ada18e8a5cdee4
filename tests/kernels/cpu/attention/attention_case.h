#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "deckle/base/check.h"
#include "deckle/kernels/args/attention.h"

namespace deckle::testing {

using Random = std::mt19937_64;

inline int64_t draw(Random& random, int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random); }
inline bool chance(Random& random, double probability) { return std::uniform_real_distribution<double>()(random) < probability; }

template <typename Choices>
auto pick(Random& random, const Choices& choices) {
  return choices[draw(random, 0, static_cast<int64_t>(std::size(choices)) - 1)];
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
    return visit_floating(dtype_, [&](auto tag) { return static_cast<double>(static_cast<const typename decltype(tag)::type*>(data())[i]); });
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
  std::vector<int64_t> q_offsets{0}, k_offsets{0}, plane_offsets;
  std::vector<int32_t> ranges;
  std::vector<uint8_t> mask;
  bool heads_first = false;  // [H, T, D] in place of [T, H, D]
  bool has_bias = false, has_slopes = false, has_sinks = false, has_table = false;
  AttentionPlane bias;  // strides; the data is each Operands' own
  int64_t bias_size = 0;

  void add_sequence(int64_t rows, int64_t keys) {
    q_offsets.push_back(q_offsets.back() + rows);
    k_offsets.push_back(k_offsets.back() + keys);
  }
  void layout() {
    problem.sequences = static_cast<int64_t>(q_offsets.size()) - 1;
    problem.q_offsets = q_offsets.data();
    problem.k_offsets = k_offsets.data();
    problem.ranges.bounds = ranges.empty() ? nullptr : ranges.data();
    problem.mask.data = mask.empty() ? nullptr : mask.data();
    problem.plane_offsets = plane_offsets.empty() ? nullptr : plane_offsets.data();
  }

  AttentionRows rows(const Buffer& buffer, int64_t total, int64_t heads, int64_t width) const {
    if (heads_first) return {buffer.data(), width, total * width};
    return {buffer.data(), heads * width, width};
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
    if (has_slopes) o.slopes = make(statistics, p.heads);
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
    Operands w{o.q.as(DType::float64), o.k.as(DType::float64), o.v.as(DType::float64), o.bias.as(DType::float64),
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
  for (int64_t b = 0; b < p.sequences; ++b) lengths += fmt::format(" {}x{}", p.rows(b), p.keys(b));
  return fmt::format("{} lengths{} heads {}/{} D {} Dv {} scale {:.3f} {}{} window {},{} ranges {} mask {} bias {}{} slopes {} sinks {} table {} "
                     "cap {:.2f} dropout {}{}",
                     name(p.dtype), lengths, p.heads, p.kv_heads, p.head_dim, p.value_dim, p.scale,
                     p.alignment == AttentionAlignment::top_left ? "top-left" : "bottom-right", p.causal ? " causal" : "", p.window_left,
                     p.window_right, p.ranges.bounds ? p.ranges.count : 0, p.mask.data != nullptr, c.has_bias,
                     p.bias_before_cap ? " before cap" : "", c.has_slopes, c.has_sinks, c.has_table ? p.table_reach : -1, p.soft_cap,
                     p.dropout.threshold, c.heads_first ? " heads first" : "");
}

/// Shapes, masks of formulas, scales: what every kernel takes.
inline AttentionCase random_plain_case(Random& random, DType dtype, int64_t longest) {
  AttentionCase c;
  AttentionProblem& p = c.problem;
  p.dtype = dtype;
  const int64_t sequences = draw(random, 0, 4);
  const bool square = chance(random, 0.4);
  for (int64_t b = 0; b < sequences; ++b) {
    const int64_t rows = chance(random, 0.1) ? 0 : draw(random, 1, longest), keys = chance(random, 0.1) ? 0 : draw(random, 1, longest);
    c.add_sequence(rows, square ? rows : keys);
  }
  p.kv_heads = draw(random, 1, 2);
  p.heads = p.kv_heads * draw(random, 1, 3);
  const int64_t dims[] = {1, 3, 8, 16, 24, 33, 40, 64};
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

}  // namespace deckle::testing
