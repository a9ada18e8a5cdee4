// The ops that derivatives of attention are made of are linear in the arguments together that their entries list: held here, as
// their entries have no samples (a plan cannot be written in one).

#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "deckle/attention/plan.h"
#include "deckle/ops/generated/attention.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/pointwise.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace deckle {
namespace {

using testing::expect_close;
using testing::random_integer;
using testing::random_tensor;

constexpr Tensor AttentionInputs::*kInputs[] = {&AttentionInputs::q,    &AttentionInputs::k,      &AttentionInputs::v,
                                                &AttentionInputs::bias, &AttentionInputs::slopes, &AttentionInputs::sinks,
                                                &AttentionInputs::table};
constexpr Tensor AttentionOutputs::*kOutputs[] = {&AttentionOutputs::out, &AttentionOutputs::lse};

bool coin() { return random_integer(0, 1) == 1; }

/// Standard normal tensors of the shapes that `like` has; of those that `missing` lets go, only some.
template <typename Record, typename Fields>
Record random_like(const Record& like, const Fields& fields, bool missing) {
  Record result;
  for (const auto field : fields) {
    if ((like.*field).defined() && !(missing && random_integer(0, 3) == 0)) result.*field = random_tensor((like.*field).sizes());
  }
  return result;
}

/// a x + b y, of which either may be missing.
Tensor combined(double a, const Tensor& x, double b, const Tensor& y) {
  if (!x.defined()) return y.defined() ? y * b : Tensor();
  return y.defined() ? x * a + y * b : x * a;
}

template <typename Record, typename Fields>
Record combined(double a, const Record& x, double b, const Record& y, const Fields& fields) {
  Record result;
  for (const auto field : fields) result.*field = combined(a, x.*field, b, y.*field);
  return result;
}

/// All tensor arguments of the four ops; each reads some.
struct Arguments {
  AttentionInputs x_tangent, first, second, both;
  AttentionOutputs y_gradient, y_gradient_tangent;
};

/// One call of attention: random sizes, lengths and features, float64.
struct Problem {
  AttentionInputs x;
  AttentionOutputs y;
  Plan plan;
  std::vector<bool> x_wanted;
  Generator generator{static_cast<uint64_t>(random_integer(0, 1 << 30))};

  Problem() {
    const int64_t key_heads = random_integer(1, 2), heads = key_heads * random_integer(1, 2), batch = random_integer(1, 3),
                  size = random_integer(1, 9), value_size = random_integer(1, 9), radius = random_integer(1, 4);
    const bool biased = coin();  // planes of one size: lengths do not differ then
    std::vector<int64_t> rows, keys;
    for (int64_t b = 0; b < batch; ++b) {
      rows.push_back(biased && b > 0 ? rows[0] : random_integer(biased ? 1 : 0, 40));
      keys.push_back(biased && b > 0 ? keys[0] : random_integer(biased ? 1 : 0, 40));
    }
    const Ragged q_rows = Ragged::from_lengths(rows), k_rows = Ragged::from_lengths(keys);
    AttentionOptions options;
    const AttentionMask masks[] = {masks::full(), masks::causal(), masks::window(3, 2)};
    options.mask = masks[random_integer(0, 2)];
    if (biased) options.bias = random_tensor({coin() ? batch : 1, coin() ? heads : 1, rows[0], keys[0]});
    if (coin()) options.slopes = random_tensor({heads}) * 0.1;
    if (coin()) options.sinks = random_tensor({heads});
    if (coin()) options.table = random_tensor({heads, 2 * radius + 1});
    if (coin()) options.soft_cap = 2;
    if (coin()) options.dropout = 0.25;
    options.generator = &generator;
    x = {random_tensor({q_rows->rows(), heads, size}),
         random_tensor({k_rows->rows(), key_heads, size}),
         random_tensor({k_rows->rows(), key_heads, value_size}),
         options.bias,
         options.slopes,
         options.sinks,
         options.table};
    plan = make_attention_plan(x.q, x.k, x.v, q_rows, k_rows, options);
    y = attention_forward(x, plan);
    for (const auto input : kInputs) x_wanted.push_back((x.*input).defined());
  }

  Arguments draw(bool missing) const {
    const auto inputs = [&] { return random_like(x, kInputs, missing); };
    const auto outputs = [&] { return random_like(y, kOutputs, false); };  // both are there, if only zeros
    return {inputs(), inputs(), inputs(), inputs(), outputs(), outputs()};
  }
};

/// Arguments that an op is linear in together, in this result, or in all.
struct Set {
  std::set<std::string> of;
  std::string result = {};

  friend bool operator==(const Set&, const Set&) = default;
};

/// An op as a function of its arguments, and the sets that it is linear in.
struct Op {
  std::string name;
  std::vector<Set> sets;
  std::function<std::vector<Tensor>(const Problem&, const Arguments&)> call;
};

std::vector<Tensor> list(const AttentionInputs& x) {
  std::vector<Tensor> tensors;
  for (const auto field : kInputs) tensors.push_back(x.*field);
  return tensors;
}

std::vector<Tensor> list(const AttentionOutputs& y) { return {y.out, y.lse}; }

const Op kOps[] = {
    {"attention_backward",
     {{{"y_gradient"}}},
     [](const Problem& p, const Arguments& a) { return list(attention_backward(a.y_gradient, p.x, p.y, p.plan, p.x_wanted)); }},
    {"attention_jvp",
     {{{"x_tangent"}}},
     [](const Problem& p, const Arguments& a) { return list(attention_jvp(a.x_tangent, p.x, p.plan)); }},
    {"attention_second",
     {{{"x_tangent", "y_gradient_tangent"}}, {{"y_gradient", "y_gradient_tangent"}, "x_gradient"}},
     [](const Problem& p, const Arguments& a) {
       const auto [x, y] =
           attention_second(a.x_tangent, p.x, p.y, a.y_gradient, a.y_gradient_tangent, p.plan, p.x_wanted, {true, true});
       std::vector<Tensor> all = list(x);
       for (const Tensor& tensor : list(y)) all.push_back(tensor);
       return all;
     }},
    {"attention_mixed",
     {{{"first", "both"}}, {{"second", "both"}}},
     [](const Problem& p, const Arguments& a) { return list(attention_mixed(a.first, a.second, a.both, p.x, p.plan)); }},
};

/// `fixed`, but what `set` names is a u + b v.
Arguments moved(const Arguments& fixed, const std::set<std::string>& set, double a, const Arguments& u, double b,
                const Arguments& v) {
  Arguments result = fixed;
  if (set.contains("x_tangent")) result.x_tangent = combined(a, u.x_tangent, b, v.x_tangent, kInputs);
  if (set.contains("first")) result.first = combined(a, u.first, b, v.first, kInputs);
  if (set.contains("second")) result.second = combined(a, u.second, b, v.second, kInputs);
  if (set.contains("both")) result.both = combined(a, u.both, b, v.both, kInputs);
  if (set.contains("y_gradient")) result.y_gradient = combined(a, u.y_gradient, b, v.y_gradient, kOutputs);
  if (set.contains("y_gradient_tangent"))
    result.y_gradient_tangent = combined(a, u.y_gradient_tangent, b, v.y_gradient_tangent, kOutputs);
  return result;
}

TEST(AttentionLinearity, IsWhatTheEntriesSay) {
  for (int round = 0; round < 40; ++round) {
    const Problem problem;
    for (const Op& op : kOps) {
      for (const auto& claim : op.sets) {
        const auto& set = claim.of;  // clang with OpenMP captures no structured binding
        SCOPED_TRACE(op.name + " in " + *set.begin() + (set.size() > 1 ? " and " + *set.rbegin() : ""));
        const Arguments fixed = problem.draw(true), u = problem.draw(false), v = problem.draw(true);
        const double a = -1.7, b = 0.6;
        const auto at = [&](double of_u, double of_v) { return op.call(problem, moved(fixed, set, of_u, u, of_v, v)); };
        const std::vector<Tensor> sum = at(a, b), one = at(1, 0), other = at(0, 1);
        for (size_t i = 0; i < sum.size(); ++i) {
          if (!sum[i].defined() || sum[i].numel() == 0) continue;
          SCOPED_TRACE("result " + std::to_string(i));
          // How the results of attention move is no matter of their gradients: y_tangent reads neither.
          const bool constant = claim.result == "x_gradient" && i >= std::size(kInputs);
          expect_close(sum[i], constant ? one[i] : one[i] * a + other[i] * b, 1e-9, 1e-9);
        }
      }
    }
  }
}

/// The sets above are those of the entries: a new one is not left out.
TEST(AttentionLinearity, HoldsAllThatTheEntriesList) {
  std::ifstream file(std::string(DECKLE_SOURCE) + "/ops/attention.yaml");
  std::ostringstream text;
  text << file.rdbuf();
  std::map<std::string, std::vector<Set>> listed, held;
  for (const Op& op : kOps) held[op.name] = op.sets;
  std::istringstream lines(text.str());
  const std::regex word("\\w+"), group(R"((?:\{(\w+): )?\[([\w, ]+)\])");
  std::string line, op;
  const auto words = [&](const std::string& part) {
    return std::set<std::string>(std::sregex_token_iterator(part.begin(), part.end(), word), std::sregex_token_iterator());
  };
  while (std::getline(lines, line)) {
    if (line.starts_with("- func: ")) op = line.substr(8, line.find('(') - 8);
    if (!line.starts_with("  linear: ")) continue;
    const std::string sets = line.substr(10);
    if (sets.find('[') == std::string::npos) listed[op] = {{words(sets)}};
    for (std::sregex_iterator at(sets.begin(), sets.end(), group), end; at != end; ++at)
      listed[op].push_back({words((*at)[2]), (*at)[1]});
  }
  EXPECT_EQ(listed, held);
}

TEST(AttentionDerivatives, RefuseAnUndefinedGradientOfOut) {
  const Problem p;
  Arguments a = p.draw(false);
  a.y_gradient.out = Tensor();
  const std::string message = ": y_gradient.out is undefined (expected a gradient, be it of zeros)";
  EXPECT_EQ(testing::error_of([&] { attention_backward(a.y_gradient, p.x, p.y, p.plan, p.x_wanted); }),
            "attention_backward" + message);
  EXPECT_EQ(testing::error_of([&] {
              attention_second(a.x_tangent, p.x, p.y, a.y_gradient, a.y_gradient_tangent, p.plan, p.x_wanted, {true, true});
            }),
            "attention_second" + message);
}

}  // namespace
}  // namespace deckle
