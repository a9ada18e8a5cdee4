// Random combinations of everything that attention takes, each by one way to differentiate it, through the public functions on a
// GPU and held to the same numbers in float64, there or, one in eight, on the CPU. Tells which kernels served how many, and holds
// the Hopper kernels to what they are said to serve. DECKLE_TEST_COMBINATIONS: how many, 2,000 in the long run.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <sstream>

#include "deckle/attention/candidates.h"
#include "deckle/attention/plan.h"
#include "deckle/deckle.h"
#include "deckle/kernels/args/attention_cuda.h"
#include "deckle/kernels/args/attention_served.h"
#include "tests/cuda/gpu.h"
#include "tests/support/random.h"

namespace deckle {
namespace {

using testing::random_tensor;
using Leaves = std::vector<Tensor>;

constexpr int kFew = 300, kOnFakeDevices = 25, kMostFailures = 12;

int combinations() {
  const char* const text = std::getenv("DECKLE_TEST_COMBINATIONS");
  return text != nullptr ? std::atoi(text) : cuda::fake() ? kOnFakeDevices : kFew;
}

enum class Way { forward, backward, forward_mode, double_backward, forward_over_reverse };
constexpr const char* kWays[] = {"forward", "backward", "forward mode", "double backward", "forward over reverse"};

/// The pass whose kernels a way adds to those of the ways that it is made of.
AttentionPass pass_of(Way way) {
  switch (way) {
    case Way::forward:
      return AttentionPass::forward;
    case Way::backward:
      return AttentionPass::backward;
    case Way::forward_mode:
      return AttentionPass::jvp;
    case Way::double_backward:
    case Way::forward_over_reverse:
      return AttentionPass::second;
  }
  return AttentionPass::forward;
}

enum class Masked { full, causal, causal_top_left, window, window_top_left, prefix, prefix_or_far, boolean };
constexpr int kBands = 5;  // so many of these are bands

/// Which dims a bias or a boolean mask has, the others being 1.
struct PlaneDims {
  bool batch = false, head = false, row = false, key = false;
};

struct Combination {
  Way way = Way::forward;
  DType dtype = DType::bfloat16;
  int64_t head_dim = 64, value_dim = 64, heads = 1, kv_heads = 1;
  bool ragged = false, one_shape = false;  // one shape: of rows and of keys
  std::vector<int64_t> rows, keys, key_lengths;
  Masked masked = Masked::full;
  int64_t left = -1, right = -1, prefix = 3;
  PlaneDims mask_dims, bias_dims;
  Tensor allowed;
  bool bias = false, before_cap = false, slopes = false, sinks = false;
  int64_t table_reach = -1;
  double soft_cap = 0, dropout = 0;

  bool features() const {
    return bias || slopes || table_reach >= 0 || soft_cap > 0 || dropout > 0 || static_cast<int>(masked) >= kBands;
  }
  int64_t longest(const std::vector<int64_t>& lengths) const { return *std::max_element(lengths.begin(), lengths.end()); }
  Dims plane(const PlaneDims& dims) const {
    return {dims.batch ? std::ssize(rows) : 1, dims.head ? heads : 1, dims.row ? longest(rows) : 1, dims.key ? longest(keys) : 1};
  }
};

std::string text_of(const PlaneDims& dims) {
  return std::string(dims.batch ? "b" : "1") + (dims.head ? "h" : "1") + (dims.row ? "m" : "1") + (dims.key ? "n" : "1");
}

std::string describe(const Combination& c) {
  std::ostringstream text;
  text << kWays[static_cast<int>(c.way)] << " of " << name(c.dtype) << ", D " << c.head_dim << "/" << c.value_dim << ", heads "
       << c.heads << "/" << c.kv_heads << (c.ragged ? c.one_shape ? ", ragged, one shape" : ", ragged" : ", dense");
  for (size_t b = 0; b < c.rows.size(); ++b) text << " " << c.rows[b] << "x" << c.keys[b];
  for (size_t b = 0; b < c.key_lengths.size(); ++b) text << (b == 0 ? ", of the keys " : " ") << c.key_lengths[b];
  text << ", mask " << static_cast<int>(c.masked) << " (" << c.left << ", " << c.right << ", " << c.prefix << ")";
  if (c.masked == Masked::boolean) text << " " << text_of(c.mask_dims);
  if (c.bias) text << ", bias " << text_of(c.bias_dims) << (c.before_cap ? " before the cap" : "");
  if (c.slopes) text << ", slopes";
  if (c.sinks) text << ", sinks";
  if (c.table_reach >= 0) text << ", table " << c.table_reach;
  if (c.soft_cap > 0) text << ", cap " << c.soft_cap;
  if (c.dropout > 0) text << ", dropout " << c.dropout;
  return text.str();
}

Combination draw(std::mt19937_64& random) {
  static constexpr DType kTypes[] = {DType::bfloat16, DType::bfloat16, DType::bfloat16, DType::float16,
                                     DType::float32,  DType::float32,  DType::float64};
  static constexpr std::pair<int64_t, int64_t> kDims[] = {{64, 64},  {128, 128}, {64, 64},   {128, 128}, {64, 64}, {40, 56},
                                                          {96, 120}, {192, 128}, {256, 256}, {24, 72},   {7, 33}};
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n)); };
  const auto dims = [&] { return PlaneDims{below(2) == 1, below(2) == 1, below(4) != 0, below(4) != 0}; };
  Combination c;
  c.way = static_cast<Way>(below(std::size(kWays)));
  c.dtype = kTypes[below(std::size(kTypes))];
  std::tie(c.head_dim, c.value_dim) = kDims[below(std::size(kDims))];
  c.kv_heads = 1 + below(2);
  c.heads = c.kv_heads * (1 + below(3));
  c.ragged = below(2) == 1;
  c.one_shape = c.ragged && below(2) == 1;
  const int64_t batch = 1 + below(4), few = below(8) == 0 ? 3 : 200, rows = (c.one_shape ? 3 : 1) + below(few),
                keys = 3 + below(250);
  for (int64_t b = 0; b < batch; ++b) {
    const auto length = [&] { return below(4) == 0 ? below(3) : below(200); };
    c.rows.push_back(c.ragged && b > 0 ? length() : rows);
    c.keys.push_back(c.one_shape ? c.rows.back() : c.ragged && b > 0 ? length() : keys);
  }
  if (!c.one_shape && below(4) == 0) {
    for (const int64_t all : c.keys) c.key_lengths.push_back(all - below(all / 2 + 1));
  }
  if (below(2) == 0) c.left = 2 + below(150);
  if (below(2) == 0) c.right = below(100);
  c.sinks = below(4) == 0;
  c.masked = static_cast<Masked>(below(kBands));
  if (below(2) == 0) return c;  // half of all have no features
  if (below(3) == 0) {
    c.masked = static_cast<Masked>(kBands + below(3));
    c.prefix = 3 + below(60);
    c.mask_dims = dims();
    if (c.masked == Masked::boolean) c.allowed = random_tensor(c.plane(c.mask_dims)) > -0.3;
  }
  if (below(3) == 0) {
    c.bias = true;
    c.bias_dims = dims();
    c.before_cap = below(2) == 1;
  }
  c.slopes = below(3) == 0;
  if (below(4) == 0) c.table_reach = below(2) * below(60);
  if (below(3) == 0) c.soft_cap = 0.5 + static_cast<double>(below(20));
  if (below(3) == 0) c.dropout = 0.1 * static_cast<double>(1 + below(6));
  return c;
}

AttentionMask mask_of(const Combination& c) {
  switch (c.masked) {
    case Masked::full:
      return masks::full();
    case Masked::causal:
      return masks::causal();
    case Masked::causal_top_left:
      return masks::causal<Alignment::top_left>();
    case Masked::window:
      return masks::window(c.left, c.right);
    case Masked::window_top_left:
      return masks::window<Alignment::top_left>(c.left, c.right);
    case Masked::prefix:
      return masks::prefix(c.prefix);
    case Masked::prefix_or_far:
      return masks::prefix(c.prefix) || !masks::window(20, 20);
    case Masked::boolean:
      return masks::boolean(c.allowed);
  }
  return masks::full();
}

/// One combination's operands; of the leaves, q, k and v come first, then what it has of bias, slopes, table and sinks.
class Problem {
 public:
  explicit Problem(const Combination& c) : c_(c) {
    const auto total = [](const std::vector<int64_t>& lengths) {
      return std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
    };
    const auto batch = std::ssize(c.rows);
    row_shape_ = Ragged::from_lengths(c.rows);
    key_shape_ = c.one_shape ? row_shape_ : Ragged::from_lengths(c.keys);
    const auto add = [&](bool key_side, int64_t heads, int64_t columns) {
      const std::vector<int64_t>& lengths = key_side ? c.keys : c.rows;
      add_leaf(c.ragged ? Dims{total(lengths), heads, columns} : Dims{batch, lengths[0], heads, columns}, true);
    };
    add(false, c.heads, c.head_dim);
    add(true, c.kv_heads, c.head_dim);
    add(true, c.kv_heads, c.value_dim);
    if (c.bias) bias_ = add_leaf(c.plane(c.bias_dims), true);
    if (c.slopes) slopes_ = add_leaf({c.heads}, false);
    if (c.table_reach >= 0) table_ = add_leaf({c.heads, 2 * c.table_reach + 1}, false);
    if (c.sinks) sinks_ = add_leaf({c.heads}, false);
    add_cotangent(c.ragged ? Dims{total(c.rows), c.heads, c.value_dim} : Dims{batch, c.rows[0], c.heads, c.value_dim}, true);
    add_cotangent(c.ragged ? Dims{total(c.rows), c.heads} : Dims{batch, c.rows[0], c.heads}, false);
  }

  /// What the combination's way gives, computed in its dtype, or in float64 where `exact`; `noise`: every number is moved at
  /// random by about this part of it.
  Leaves run(Device device, bool exact, double noise = 0) const {
    const auto moved = [&](const Leaves& numbers, const std::vector<bool>& narrow) {
      Leaves result;
      for (size_t i = 0; i < numbers.size(); ++i) {
        const Tensor& x = numbers[i];
        const Tensor y = noise > 0 ? x + x * random_tensor(x.sizes()) * noise : x;
        result.push_back(y.to(exact ? DType::float64 : stored(narrow[i])).to(device).detach());
      }
      return result;
    };
    const Leaves x = moved(numbers_, narrow_), t = moved(tangents_, narrow_), back = moved(others_, narrow_),
                 dy = moved(with_rounded_delta(noise), {true, false});
    const auto f = [&](const Leaves& at) { return results(at); };
    const auto gradient = [&](const Leaves& at) { return vjp(f, at, dy).second; };
    switch (c_.way) {
      case Way::forward:
        return f(x);
      case Way::backward:
        return gradient(x);
      case Way::forward_mode:
        return jvp(f, x, t).second;
      case Way::double_backward:
        return vjp(gradient, x, back).second;
      case Way::forward_over_reverse:
        return jvp(gradient, x, t).second;
    }
    return {};
  }

  /// How many terms an element of result `i` is a sum of: gradients of what moves whole rows of scores are 0, and the roundings
  /// of their terms all there is.
  double terms(size_t i, size_t elements) const {
    const bool of_leaves = c_.way != Way::forward && c_.way != Way::forward_mode;
    if (!of_leaves || i < 3 || elements == 0) return 1;  // the gradients of q, k and v are none of these
    double scores = 0;
    for (size_t b = 0; b < c_.rows.size(); ++b)
      scores += static_cast<double>(c_.heads * c_.rows[b] * (static_cast<int>(i) == sinks_ ? 1 : c_.keys[b]));
    return std::max(1.0, scores / static_cast<double>(elements));
  }

  /// The kernels that a plan chooses on a GPU.
  AttentionKernel planned() const {
    Leaves x;
    for (size_t i = 0; i < numbers_.size(); ++i) x.push_back(numbers_[i].to(stored(narrow_[i])));
    const auto packed = [&](size_t i) { return c_.ragged ? x[i] : flatten(x[i], 0, 1); };
    const AttentionOptions options = options_of(x);
    const Plan plan = make_attention_plan(packed(0), packed(1), packed(2), row_shape_, key_shape_, options);
    AttentionRequest request = attention_request(*plan, options, Device());
    request.pass = pass_of(c_.way);
    return choose_attention_kernel(request, "cuda");
  }

 private:
  DType stored(bool narrow) const { return narrow || c_.dtype == DType::float64 ? c_.dtype : DType::float32; }

  int add_leaf(const Dims& sizes, bool narrow) {
    const double scale = narrow || sizes.size() > 1 ? 1 : 0.1;
    const auto drawn = [&] { return (random_tensor(sizes) * scale).to(stored(narrow)).to(DType::float64); };
    numbers_.push_back(drawn());
    tangents_.push_back(drawn());
    others_.push_back(drawn());
    narrow_.push_back(narrow);
    return static_cast<int>(numbers_.size()) - 1;
  }
  void add_cotangent(const Dims& sizes, bool narrow) {
    cotangents_.push_back(random_tensor(sizes).to(stored(narrow)).to(DType::float64));
  }

  /// A backward has dO · out of a row from an out that is rounded, which is as if the gradient of the row's log-sum-exp were
  /// another: gradients that are a sum over all scores, or should be 0, show it.
  Leaves with_rounded_delta(double noise) const {
    if (noise == 0) return cotangents_;
    const double rounding = 0.5 * noise * std::sqrt(static_cast<double>(c_.value_dim));
    return {cotangents_[0], cotangents_[1] + random_tensor(cotangents_[1].sizes()) * rounding};
  }

  AttentionOptions options_of(const Leaves& at) const {
    const auto leaf = [&](int i) { return i < 0 ? Tensor() : at[static_cast<size_t>(i)]; };
    AttentionOptions options;
    options.mask = mask_of(c_);
    options.bias = leaf(bias_);
    options.bias_before_cap = c_.before_cap;
    options.slopes = leaf(slopes_);
    options.table = leaf(table_);
    options.sinks = leaf(sinks_);
    options.soft_cap = c_.soft_cap;
    options.dropout = c_.dropout;
    options.key_lengths = c_.key_lengths;
    return options;
  }

  Leaves results(const Leaves& at) const {
    Generator generator(7);  // the same stream in every call
    AttentionOptions options = options_of(at);
    options.generator = &generator;
    if (!c_.ragged) {
      const auto [out, lse] = attention_with_lse(at[0], at[1], at[2], options);
      return {out, lse};
    }
    const auto [out, lse] = attention_with_lse(NestedTensor(at[0], row_shape_), NestedTensor(at[1], key_shape_),
                                               NestedTensor(at[2], key_shape_), options);
    return {out.values(), lse.values()};
  }

  const Combination& c_;
  Ragged row_shape_, key_shape_;
  Leaves numbers_, tangents_, others_, cotangents_;  // float64 on the CPU, of numbers that the dtypes have
  std::vector<bool> narrow_;                         // those of q's dtype; the others are float32 at least
  int bias_ = -1, slopes_ = -1, table_ = -1, sinks_ = -1;
};

/// Whether the Hopper kernels are said to serve the combination's own pass (docs/attention.md, the table; launch.cu): of operands
/// as they are, or as the public functions copy them, halves with head dims and biases with rows of a multiple of 8.
bool claimed(const Combination& c, bool copied) {
  const AttentionPass pass = pass_of(c.way);
  const bool rounds = copied && item_size(c.dtype) == 2;
  const int64_t unit = rounds ? 8 : 1, head_dim = (c.head_dim + unit - 1) / unit * unit,
                value_dim = (c.value_dim + unit - 1) / unit * unit;
  const auto compiled = [&](std::initializer_list<std::pair<int64_t, int64_t>> dims) {
    return std::any_of(dims.begin(), dims.end(),
                       [&](const auto& of) { return kernels::compiled_dims_serve(of.first, of.second, head_dim, value_dim); });
  };
  const bool narrow_dims = compiled({{64, 64}, {128, 128}});
  const bool forward = pass == AttentionPass::forward, backward = pass == AttentionPass::backward;
  if (!forward && !backward) {
    if (c.dtype != DType::bfloat16 || c.features() || c.sinks || !narrow_dims) return false;
    if (pass == AttentionPass::jvp) return true;
    for (size_t b = 0; b < c.rows.size(); ++b) {
      if (c.rows[b] > c.keys[b] && c.keys[b] > 0) return false;
    }
    return c.key_lengths.empty();
  }
  if (c.dtype == DType::float64) return false;
  if (c.dtype == DType::float32)
    return !c.features() && std::max(c.head_dim, c.value_dim) <= 128 && (forward || (!c.sinks && c.key_lengths.empty()));
  if (!c.features()) return narrow_dims || compiled({{192, 128}, {192, 192}, {256, 256}});
  if (!narrow_dims || (c.masked == Masked::boolean && c.mask_dims.head && c.heads > 1)) return false;
  const bool read_wide = c.bias_dims.key && (c.longest(c.keys) % 8 == 0 || (rounds && c.longest(c.keys) > 1));
  if (forward) return !c.bias || read_wide;
  if (c.table_reach >= 0) return false;
  return !c.bias || (read_wide && c.bias_dims.row && c.longest(c.rows) > 1 && !c.slopes && c.soft_cap == 0 && c.dropout == 0 &&
                     static_cast<int>(c.masked) < kBands);
}

std::vector<double> numbers_of(const Tensor& x) { return x.to(Device{}).to(DType::float64).to_vector(); }

/// The norm of the difference, in which infinities and NaN count as none where both have them.
double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    const double difference = a[i] - b[i];
    if (!std::isfinite(difference)) return INFINITY;
    sum += difference * difference;
  }
  return std::sqrt(sum);
}

double norm(const std::vector<double>& a) {
  double sum = 0;
  for (const double x : a) sum += std::isfinite(x) ? x * x : 0;
  return std::sqrt(sum);
}

/// What a result may be off by whatever its condition.
double relative(DType dtype) {
  return dtype == DType::bfloat16 ? 1e-2 : dtype == DType::float16 ? 4e-3 : dtype == DType::float32 ? 1e-4 : 1e-9;
}

/// Steps of about which numbers of a dtype are computed.
double unit(DType dtype) {
  return std::ldexp(1.0, dtype == DType::bfloat16 ? -8 : dtype == DType::float16 ? -11 : dtype == DType::float32 ? -18 : -44);
}

/// The names of the kernels that have served a pass since the counts were cleared.
std::string served(AttentionPass pass) {
  constexpr const char* kNames[kernels::kAttentionKernels] = {"decode", "fused", "reference", "hopper", "portable", "general"};
  std::string text;
  for (int kernel = 0; kernel < kernels::kAttentionKernels; ++kernel) {
    if (kernels::attention_served[static_cast<int>(pass)][kernel] == 0) continue;
    text += (text.empty() ? "" : " + ") + std::string(kNames[kernel]);
  }
  return text;
}

void clear_served() {
  for (auto& pass : kernels::attention_served) {
    for (auto& count : pass) count = 0;
  }
}

/// Whether the GPU here runs the Hopper kernels at all.
bool hopper() {
  clear_served();
  const Tensor x = random_tensor({1, 128, 1, 64}, DType::bfloat16).to(kGpu);
  attention(x, x, x);
  return served(AttentionPass::forward) == "hopper";
}

int failures() { return ::testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count(); }

TEST(CudaAttentionCombinations, MatchFloat64ByTheKernelsThatAreSaidToServeThem) {
  NEEDS_GPU();
  std::mt19937_64 random(testing::seed() + 31);
  std::set<std::string> seen;
  std::map<std::string, std::map<std::string, int>> table;
  std::map<std::string, double> worst;
  const bool here = !cuda::fake() && hopper();
  int by_hopper = 0;
  for (int drawn = 0; static_cast<int>(seen.size()) < combinations() && drawn < 2 * combinations(); ++drawn) {
    const Combination c = draw(random);
    if (!seen.insert(describe(c)).second) continue;
    SCOPED_TRACE(describe(c));
    const Problem problem(c);
    const AttentionKernel planned = problem.planned();
    if (claimed(c, false)) {
      EXPECT_TRUE(planned == AttentionKernel::hopper || planned == AttentionKernel::decode) << "the plan leaves it to others";
    }
    clear_served();
    const Leaves got = problem.run(kGpu, false);
    const std::string by = cuda::fake() ? "fake" : served(pass_of(c.way));
    if (here && claimed(c, true)) {
      EXPECT_TRUE(by == "hopper" || by == "decode") << "served by " << by;
    }
    EXPECT_NE(by, "") << "nobody served it";
    by_hopper += by == "hopper";
    const std::string row = kWays[static_cast<int>(c.way)] + (" of " + std::string(name(c.dtype)));
    ++table[row][by];
    const Device device = drawn % 8 == 0 || c.dtype == DType::float64 ? Device{} : kGpu;
    const Leaves expected = problem.run(device, true), moved = problem.run(device, true, unit(c.dtype));
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(to_string(got[i].sizes()), to_string(expected[i].sizes()));
      const std::vector<double> exact = numbers_of(expected[i]);
      const double error = distance(numbers_of(got[i]), exact),
                   allowed = 4 * distance(numbers_of(moved[i]), exact) + relative(c.dtype) * norm(exact) +
                             0.2 * unit(c.dtype) * std::sqrt(static_cast<double>(exact.size()) * problem.terms(i, exact.size()));
      EXPECT_LE(error, allowed) << "result " << i << ", by " << by;
      if (!exact.empty()) worst[row] = std::max(worst[row], error / allowed);
    }
    if (failures() >= kMostFailures) break;
  }
  std::cout << seen.size() << " combinations; the largest error beside what is allowed\n";
  for (const auto& [row, counts] : table) {
    std::cout << "  " << row << ":";
    for (const auto& [kernel, count] : counts) std::cout << " " << kernel << " " << count;
    std::cout << "; " << worst[row] << "\n";
  }
  if (failures() >= kMostFailures) return;
  EXPECT_EQ(static_cast<int>(seen.size()), combinations());
  if (here) {
    EXPECT_GT(by_hopper, combinations() / 5);
  }
}

}  // namespace
}  // namespace deckle
