#include "deckle/attention/attention.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "deckle/autograd/backward.h"
#include "deckle/core/allocator.h"
#include "deckle/core/cuda/device.h"
#include "deckle/core/factory_device.h"
#include "deckle/functional/gradcheck.h"
#include "deckle/functional/transforms.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace deckle {
namespace {

using testing::expect_close;
using testing::expect_equal;
using testing::expect_error;
using testing::random_tensor;

/// A band of keys around the query's position: a mask and its parameters.
struct Band {
  AttentionMask mask;
  Alignment alignment = Alignment::bottom_right;
  int64_t left = -1, right = -1;
};

/// One sequence by the definition: q [M, H, D], k [N, Hk, D], v [N, Hk, Dv] -> [M, H, Dv].
Tensor naive(const Tensor& q, const Tensor& k, const Tensor& v, const Band& band) {
  const int64_t rows = q.size(0), keys = k.size(0), heads = q.size(1), group = heads / k.size(1);
  const int64_t offset = band.alignment == Alignment::top_left ? 0 : keys - rows;
  const Tensor out = zeros_like(empty({rows, heads, v.size(2)}, DType::float64));
  const std::vector<double> qs = q.to_vector(), ks = k.to_vector(), vs = v.to_vector();
  const auto at = [](int64_t i, int64_t h, int64_t d, int64_t hs, int64_t ds) {
    return static_cast<size_t>((i * hs + h) * ds + d);
  };
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t i = 0; i < rows; ++i) {
      std::vector<double> weights(static_cast<size_t>(keys), 0);
      double total = 0;
      for (int64_t j = 0; j < keys; ++j) {
        const int64_t distance = j - (i + offset);
        if ((band.left >= 0 && -distance > band.left) || (band.right >= 0 && distance > band.right)) continue;
        double dot = 0;
        for (int64_t d = 0; d < q.size(2); ++d)
          dot += qs[at(i, h, d, heads, q.size(2))] * ks[at(j, h / group, d, k.size(1), q.size(2))];
        total += weights[static_cast<size_t>(j)] = std::exp(dot / std::sqrt(static_cast<double>(q.size(2))));
      }
      for (int64_t d = 0; d < v.size(2); ++d) {
        double value = 0;
        for (int64_t j = 0; j < keys; ++j)
          value += total > 0 ? weights[static_cast<size_t>(j)] / total * vs[at(j, h / group, d, k.size(1), v.size(2))] : 0;
        out.data<double>()[at(i, h, d, heads, v.size(2))] = value;
      }
    }
  }
  return out;
}

const Band kCausal{masks::causal(), Alignment::bottom_right, -1, 0};
const Band kBands[] = {{masks::full()},
                       kCausal,
                       {masks::causal<Alignment::top_left>(), Alignment::top_left, -1, 0},
                       {masks::window(2, 1), Alignment::bottom_right, 2, 1},
                       {masks::window<Alignment::top_left>(3, 0), Alignment::top_left, 3, 0}};

TEST(Attention, RaggedEqualsEachSequenceAlone) {
  const std::vector<int64_t> q_lengths = {5, 0, 1, 70, 3}, k_lengths = {4, 2, 0, 33, 3};
  for (const Band& band : kBands) {
    const NestedTensor q = NestedTensor::from_lengths(random_tensor({79, 4, 6}), q_lengths);
    const NestedTensor k = NestedTensor::from_lengths(random_tensor({42, 2, 6}), k_lengths);
    const NestedTensor v = NestedTensor::from_lengths(random_tensor({42, 2, 5}), k_lengths);
    const NestedTensor out = attention(q, k, v, {.mask = band.mask});
    for (int64_t b = 0; b < 5; ++b) expect_close(out[b], naive(q[b], k[b], v[b], band), 1e-12, 1e-12);
  }
}

TEST(Attention, DenseEqualsRaggedOfEqualLengths) {
  const Tensor q = random_tensor({2, 7, 4, 8}), k = random_tensor({2, 9, 4, 8}), v = random_tensor({2, 9, 4, 8});
  const Tensor out = attention(q, k, v, {.mask = masks::causal()});
  for (int64_t b = 0; b < 2; ++b) expect_close(out[b], naive(q[b], k[b], v[b], kCausal), 1e-12, 1e-12);
}

TEST(Attention, StridedInputsGiveTheSame) {
  const Tensor packed = random_tensor({2, 6, 3, 4, 5});  // q, k and v side by side
  const Tensor q = packed.select(2, 0), k = packed.select(2, 1), v = packed.select(2, 2);
  expect_equal(attention(q, k, v), attention(q.clone(), k.clone(), v.clone()));
  const Tensor flipped = q.transpose(-1, -2).clone().transpose(-1, -2);
  expect_equal(attention(flipped, k, v), attention(q, k, v));
}

TEST(Attention, GradientsMatchCentralDifferences) {
  for (const Band& band : kBands) {
    const NestedTensor q = NestedTensor::from_lengths(random_tensor({7, 4, 3}), {4, 0, 3});
    const NestedTensor k = NestedTensor::from_lengths(random_tensor({6, 2, 3}), {2, 1, 3});
    const NestedTensor v = NestedTensor::from_lengths(random_tensor({6, 2, 2}), {2, 1, 3});
    const auto f = [&](const NestedTensor& a, const NestedTensor& b, const NestedTensor& c) {
      return attention(a, b, c, {.mask = band.mask});
    };
    gradcheck(f, std::tuple(q, k, v));
  }
}

TEST(Attention, GradientsFlowThroughLogSumExp) {
  const NestedTensor q = NestedTensor::from_lengths(random_tensor({5, 2, 3}), {3, 2});
  const NestedTensor k = NestedTensor::from_lengths(random_tensor({6, 2, 3}), {4, 2});
  const auto f = [&](const NestedTensor& a, const NestedTensor& b) {
    const auto [out, lse] = attention_with_lse(a, b, b, {.mask = masks::causal()});
    return std::tuple(out, NestedTensor(sin(lse.values()), lse.ragged()));
  };
  gradcheck(f, std::tuple(q, k));
}

/// Reverse, forward, and second order in all four ways.
template <typename F, typename X>
void expect_every_derivative(F&& f, const X& x) {
  const GradcheckOptions options{.absolute = 2e-5, .relative = 1e-3};
  gradcheck(f, x, options);
  forward_gradcheck(f, x, options);
  gradgradcheck(f, x, options);
  forward_gradgradcheck(f, x, options);
  // Forward mode as a function of the point and the tangent: reverse over forward, forward over forward.
  using Leaves = std::vector<Tensor>;
  const auto pushforward = [f = functional::on_vectors(f, x)](const Leaves& both) {
    const auto half = both.begin() + static_cast<int64_t>(both.size() / 2);
    return jvp(f, Leaves(both.begin(), half), Leaves(half, both.end())).second;
  };
  Leaves point = functional::to_leaves(x);
  for (size_t n = point.size(), i = 0; i < n; ++i) point.push_back(random_tensor(point[i].sizes()));
  functional::gradcheck(pushforward, point, options);
  functional::forward_gradcheck(pushforward, point, options);
}

TEST(Attention, EveryDerivativeOfQueriesKeysAndValues) {
  for (const AttentionMask& mask :
       {masks::full(), AttentionMask(masks::causal()), AttentionMask(masks::window<Alignment::top_left>(1, 1))}) {
    const NestedTensor q = NestedTensor::from_lengths(random_tensor({4, 2, 3}), {3, 0, 1});
    const NestedTensor k = NestedTensor::from_lengths(random_tensor({4, 1, 3}), {2, 1, 1});
    const NestedTensor v = NestedTensor::from_lengths(random_tensor({4, 1, 2}), {2, 1, 1});
    expect_every_derivative(
        [&](const NestedTensor& a, const NestedTensor& b, const NestedTensor& c) {
          const auto [out, lse] = attention_with_lse(a, b, c, {.mask = mask});
          const NestedTensor finite(masked_fill(lse.values(), isinf(lse.values()), 0.0), lse.ragged());  // rows without keys
          return std::tuple(out, finite);
        },
        std::tuple(q, k, v));
  }
}

TEST(Attention, EveryDerivativeOfEveryParameter) {
  const Tensor q = random_tensor({2, 3, 2, 2}), k = random_tensor({2, 2, 1, 2}), v = random_tensor({2, 2, 1, 2});
  const Tensor slopes = random_tensor({2}), sinks = random_tensor({2}), table = random_tensor({2, 5});
  for (const bool before : {false, true}) {
    for (const Dims& shape : {Dims{2, 2, 3, 2}, Dims{1, 2, 1, 2}, Dims{1, 1, 3, 2}, Dims{2, 1, 3, 1}}) {
      expect_every_derivative(
          [&](const Tensor& a, const Tensor& bias, const Tensor& slope, const Tensor& sink, const Tensor& distances) {
            return attention_with_lse(
                a, k, v,
                {.bias = bias, .bias_before_cap = before, .slopes = slope, .table = distances, .sinks = sink, .soft_cap = 1.5});
          },
          std::tuple(q, random_tensor(shape), slopes, sinks, table));
    }
  }
}

TEST(Attention, ADenseBiasOfARaggedBatchHasNoGradientWhereNoSequenceReaches) {
  for (const std::vector<int64_t>& lengths : {std::vector<int64_t>{2, 0, 4}, std::vector<int64_t>{}}) {
    const auto sequences = static_cast<int64_t>(lengths.size());
    const Ragged rows = Ragged::from_lengths(lengths);
    const Tensor x = random_tensor({rows->rows(), 2, 3});
    for (const Dims& shape : {Dims{sequences, 2, 4, 4}, Dims{1, 1, 6, 5}, Dims{1, 2, 1, 7}, Dims{sequences, 1, 5, 1}}) {
      const Tensor bias = random_tensor(shape);
      const auto f = [&](const Tensor& y) {
        return attention(NestedTensor(x, rows), NestedTensor(x, rows), NestedTensor(x, rows), {.bias = y}).values();
      };
      const auto gradient = [&](const Tensor& y) {
        empty(y.sizes(), y.dtype(), {}).fill_(std::nan(""));  // poisons the memory of the gradient
        return vjp(f, y, x).second;
      };
      const auto [first, second] = jvp(gradient, bias, random_tensor(shape));
      const auto reached = [&](int64_t b, int64_t i, int64_t j) {
        const auto any = [&](int64_t n) {
          return (shape[2] == 1 || i < lengths[static_cast<size_t>(n)]) && (shape[3] == 1 || j < lengths[static_cast<size_t>(n)]);
        };
        bool found = false;
        for (int64_t n = 0; n < sequences; ++n) found |= (shape[0] == 1 || n == b) && any(n);
        return found;
      };
      for (const Tensor& result : {first, second}) {
        const std::vector<double> values = result.to_vector();
        for (int64_t at = 0; at < result.numel(); ++at) {
          const int64_t j = at % shape[3], i = at / shape[3] % shape[2], b = at / (shape[3] * shape[2] * shape[1]);
          const double value = values[static_cast<size_t>(at)];
          EXPECT_TRUE(reached(b, i, j) ? std::isfinite(value) : value == 0)
              << to_string(bias.sizes()) << " at " << at << ": " << value;
        }
      }
    }
  }
}

TEST(Attention, AnExpandedBiasIsNotCopied) {
  const Tensor x = random_tensor({2, 64, 4, 3}), small = random_tensor({1, 1, 64, 1});
  const Tensor expanded = small.expand({2, 4, 64, 64});
  reset_peak_memory();
  const int64_t before = memory_stats().in_use;
  const Tensor out = attention(x, x, x, {.bias = expanded});
  EXPECT_LT(memory_stats().peak - before, expanded.numel() * 8);
  expect_equal(out, attention(x, x, x, {.bias = contiguous(expanded)}));
  const auto loss = [&](const auto& shape) {
    return [&](const Tensor& b) { return sum(square(attention(x, x, x, {.bias = shape(b)}))); };
  };
  const Tensor of_expanded = grad(loss([](const Tensor& b) { return b.expand({2, 4, 64, 64}); }), small);
  expect_close(of_expanded, grad(loss([](const Tensor& b) { return b; }), small), 1e-12, 1e-12);
}

TEST(Attention, AWindowWithoutLimitsSaysFromWhereDistancesCount) {
  const Tensor q = random_tensor({1, 3, 2, 4}), k = random_tensor({1, 5, 2, 4}), slopes = random_tensor({2});
  const auto with = [&](const AttentionMask& mask) { return attention(q, k, k, {.mask = mask, .slopes = slopes}); };
  const Tensor made = zeros_raw({1, 2, 3, 5}, DType::float64, Device());
  for (int64_t n = 0; n < made.numel(); ++n)
    made.data<double>()[n] = -slopes.to_vector()[static_cast<size_t>(n / 15)] * static_cast<double>(std::abs(n % 5 - n / 5 % 3));
  const Tensor bias = made.to(factory_device());
  expect_close(with(masks::window<Alignment::top_left>(-1, -1)), attention(q, k, k, {.bias = bias}), 1e-12, 1e-12);
  expect_equal(with(masks::window(-1, -1)), with(masks::full()));
  EXPECT_NE(with(masks::window<Alignment::top_left>(-1, -1)).to_vector(), with(masks::full()).to_vector());
}

TEST(Attention, ANanIsSeenInTheResult) {
  for (const int64_t rows : {1, 20}) {  // decode and fused
    for (const int64_t keys : {1, 5, 300}) {
      const Tensor q = random_tensor({1, rows, 1, 8}, DType::float32), k = random_tensor({1, keys, 1, 8}, DType::float32),
                   spoiled = k.clone();
      spoiled.select(1, keys / 2).fill_(std::nan(""));
      for (const auto& [out, lse] : {attention_with_lse(mul(q, std::nan("")), k, k), attention_with_lse(q, spoiled, k)}) {
        for (const double value : out.to_vector()) EXPECT_TRUE(std::isnan(value)) << rows << " rows, " << keys << " keys";
        for (const double value : lse.to_vector()) EXPECT_TRUE(std::isnan(value)) << rows << " rows, " << keys << " keys";
      }
    }
  }
}

TEST(Attention, TheGradientOfABiasThatIsOneNumberAlongARowHasNoRoundingOfTheOutput) {
  const OnDevice host{Device()};  // a GPU takes the output as it is stored
  const int64_t rows = 255, keys = 256, heads = 3, dim = 64;
  const auto drawn = [](Ints sizes) { return to(to(random_tensor(sizes), DType::bfloat16), DType::float64); };
  const Tensor q = drawn({2, rows, heads, dim}), k = drawn({2, keys, heads, dim}), v = drawn({2, keys, heads, dim}),
               dout = drawn({2, rows, heads, dim}), sinks = drawn({heads});
  const auto gradient = [&](Ints shape, bool with_sinks, DType dtype) {
    const auto in = [&](const Tensor& x) { return to(x, dtype); };
    const auto f = [&](const Tensor& bias) {
      const DType statistics = dtype == DType::float64 ? dtype : DType::float32;
      return attention(in(q), in(k), in(v), {.bias = bias, .sinks = with_sinks ? to(sinks, statistics) : Tensor()});
    };
    return to(vjp(f, in(zeros(shape, DType::float64)), in(dout)).second, DType::float64);
  };
  for (const Dims& shape : {Dims{1, 1, 1, 1}, Dims{1, heads, 1, 1}, Dims{1, 1, rows, 1}, Dims{2, heads, rows, 1}}) {
    for (const DType dtype : {DType::bfloat16, DType::float16, DType::float32}) {
      // A number added to all logits of a row changes nothing.
      for (const double value : gradient(shape, false, dtype).to_vector()) EXPECT_EQ(value, 0) << name(dtype);
    }
  }
  // Beside a sink it does: by the sum over the rows of p Delta, p the sink's share. Delta = <dout, out> carries the rounding of
  // out and of the P that out was summed with, each at most 2^-9 of sum_j P |v_j|; the result its own.
  const auto [out, lse] = attention_with_lse(q, k, v, {.sinks = sinks});
  const Tensor share = exp(sub(sinks, lse)), sizes = attention(q, k, abs(v), {.sinks = sinks});
  const double delta_error = 2 * 0x1p-9 * sum(mul(share, sum(mul(abs(dout), sizes), {-1}))).item<double>();
  const double exact = gradient({1, 1, 1, 1}, true, DType::float64).item<double>();
  const double got = gradient({1, 1, 1, 1}, true, DType::bfloat16).item<double>();
  EXPECT_LE(std::abs(got - exact), delta_error + 0x1p-9 * std::abs(exact));
  EXPECT_NEAR(exact, sum(mul(share, sum(mul(dout, out), {-1}))).item<double>(), 1e-9);
}

TEST(Attention, ANanIsSeenInTangentsAndSecondDerivatives) {
  const Tensor q = random_tensor({1, 20, 1, 8}), k = random_tensor({1, 70, 1, 8}), along = random_tensor({1, 20, 1, 8});
  for (const DType dtype : {DType::float64, DType::float32}) {
    const Tensor keys = to(k, dtype), spoiled = mul(to(q, dtype), std::nan("")), direction = to(along, dtype);
    for (const double cap : {0.0, 5.0}) {
      const auto f = [&](const Tensor& x) {
        return cap > 0 ? attention(x, keys, keys, {.soft_cap = cap}) : attention(x, keys, keys);
      };
      const auto gradient = [&](const Tensor& x) { return grad([&](const Tensor& y) { return sum(square(f(y))); }, x); };
      const auto second = [&](const Tensor& x) {
        return grad([&](const Tensor& y) { return sum(mul(gradient(y), direction)); }, x);
      };
      const std::pair<const char*, Tensor> orders[] = {{"the tangent", jvp(f, spoiled, direction).second},
                                                       {"the gradient", gradient(spoiled)},
                                                       {"the tangent of the gradient", jvp(gradient, spoiled, direction).second},
                                                       {"the gradient of the gradient", second(spoiled)}};
      for (const auto& [what, values] : orders) {
        for (const double value : values.to_vector()) EXPECT_TRUE(std::isnan(value)) << what << " in " << name(dtype);
      }
    }
  }
}

TEST(Attention, ThirdOrderIsAnErrorThatNamesTheOp) {
  const Tensor q = random_tensor({1, 2, 1, 3});
  const auto f = [&](const Tensor& x) { return sum(attention(x, x, x)); };
  const auto second = [&](const Tensor& x) { return sum(grad([&](const Tensor& y) { return sum(mul(grad(f, y), q)); }, x)); };
  expect_error([&] { grad(second, q); }, "attention has derivatives up to the second order");
  expect_error([&] { jvp(second, q, q); }, "attention_second has no forward mode");
  const auto forward = [&](const Tensor& x) { return jvp([&](const Tensor& y) { return jvp(f, y, q).second; }, x, q).second; };
  expect_error([&] { jvp(forward, q, q); }, "attention_mixed has no forward mode");
  expect_error([&] { grad(forward, q); }, "attention has derivatives up to the second order");
}

TEST(Attention, ARaggedBiasHasARaggedGradient) {
  const NestedTensor q = NestedTensor::from_lengths(random_tensor({5, 2, 3}), {3, 2});
  const NestedTensor k = NestedTensor::from_lengths(random_tensor({3, 2, 3}), {1, 2});
  const NestedTensor bias(random_tensor({7}), Ragged(std::make_shared<const RaggedShape>(std::vector<int64_t>{3, 1, 2, 2}, 2)));
  expect_every_derivative([&](const NestedTensor& b) { return attention(q, k, k, {.ragged_bias = b}); }, bias);
  const Tensor second = attention(q, k, k, {.ragged_bias = bias})[1];
  const Tensor alone = attention(q[1].unsqueeze(0), k[1].unsqueeze(0), k[1].unsqueeze(0), {.bias = bias[1].view({1, 1, 2, 2})});
  expect_close(second, alone[0], 1e-12, 1e-12);
}

TEST(Attention, DropoutFollowsTheFrozenContract) {
  // Keys are told apart by one-hot values. Seed 1234, offset 5678, 77 / 256, sequence 1, head 2, row 0.
  const int64_t keys = 16;
  const Tensor q = zeros({2, 1, 3, 4}, DType::float64), k = zeros({2, keys, 3, 4}, DType::float64),
               v = zeros({2, keys, 3, keys}, DType::float64);
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t j = 0; j < keys; ++j) v[b][j].select(1, j).fill_(1);
  }
  Generator generator;
  generator.set_state(1234, 5678);
  const std::vector<double> row = attention(q, k, v, {.dropout = 77.0 / 256, .generator = &generator})[1][0][2].to_vector();
  std::string kept;
  for (const double p : row) {
    kept += p == 0 ? '0' : '1';
    EXPECT_TRUE(p == 0 || std::abs(p - 256.0 / (256 - 77) / keys) < 1e-15) << p;
  }
  EXPECT_EQ(kept, "1111111011111111");
}

TEST(Attention, DropoutDependsOnSeedAndPlaceAlone) {
  const NestedTensor q = NestedTensor::from_lengths(random_tensor({90, 2, 3}), {50, 40});
  const auto of = [](const auto& x, uint64_t seed, double probability = 0.5) {
    Generator generator(seed);
    return attention(x, x, x, {.dropout = probability, .generator = &generator});
  };
  const NestedTensor a = of(q, 7);
  expect_equal(of(q, 7).values(), a.values());
  expect_equal(of(q[0].unsqueeze(0), 7)[0], a[0]);  // alone, and dense
  Generator generator(7);
  const Tensor few = q[0].slice(0, 0, 9).unsqueeze(0), all = q[0].unsqueeze(0);
  expect_equal(attention(few, all, all, {.dropout = 0.5, .generator = &generator})[0], a[0].slice(0, 0, 9));  // other tiles
  EXPECT_NE(of(q, 8).values().to_vector(), a.values().to_vector());
  EXPECT_NE(of(q, 7, 0).values().to_vector(), a.values().to_vector());
  expect_every_derivative(
      [&](const NestedTensor& x) {
        Generator generator(7);
        return attention(x, x, x, {.dropout = 0.5, .generator = &generator});
      },
      NestedTensor::from_lengths(random_tensor({4, 1, 2}), {3, 1}));
}

TEST(Attention, BooleanMasksForbidKeys) {
  const Tensor q = random_tensor({1, 3, 1, 2}), k = random_tensor({1, 4, 1, 2});
  const Tensor allowed = ne(testing::tensor_of({1, 0, 1, 0}), 0.0).view({1, 1, 1, 4});
  const Tensor kept = cat({k.select(1, 0).unsqueeze(1), k.select(1, 2).unsqueeze(1)}, 1);
  expect_close(attention(q, k, k, {.mask = masks::boolean(allowed)}), attention(q, kept, kept), 1e-12, 1e-12);
}

// A bias often stands for a mask by the least finite number, beside which scores vanish. A row of which every key has it sees all
// of them alike, in powers of two, too, where that number times log2 e is infinite.
void expect_means_of_far_rows(Device device, DType dtype, double least) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  SCOPED_TRACE(std::string(name(dtype)) + " " + std::to_string(least));
  const auto operand = [&](int64_t rows) { return random_tensor({2, rows, 2, 64}).to(dtype).to(device); };
  const Tensor q = operand(40), k = operand(300), v = operand(300), bias = zeros({1, 1, 40, 300}, DType::float64);
  bias.narrow(2, 5, 1).fill_(least);
  bias.narrow(2, 6, 1).fill_(least);
  bias.narrow(2, 6, 1).narrow(3, 0, 100).fill_(-kInfinity);
  bias.narrow(2, 7, 1).narrow(3, 0, 200).fill_(least);
  const auto wide = [](const Tensor& x) { return x.detach().to(Device()).to(DType::float64); };
  const Tensor out = attention(q, k, v, {.bias = bias.to(dtype).to(device)}), values = wide(v);
  const auto row = [&](int64_t i) { return wide(out).select(1, i); };
  const double bound = dtype == DType::bfloat16 ? 1e-2 : 1e-6;
  expect_close(row(5), mean(values, Ints{1}), bound, bound);
  expect_close(row(6), mean(values.narrow(1, 100, 200), Ints{1}), bound, bound);
  expect_close(row(7), wide(attention(q, k.narrow(1, 200, 100), v.narrow(1, 200, 100))).select(1, 7), bound, bound);
  const auto gradients = [&](const Tensor& of_bias, double far) {  // of rows 5 and 6 times `far`
    const std::vector<Tensor> x{q.detach().requires_grad_(), k.detach().requires_grad_(), v.detach().requires_grad_()};
    Tensor weight = ones({1, 40, 1, 1}, DType::float64);
    weight.narrow(1, 5, 2).fill_(far);
    sum(attention(x[0], x[1], x[2], {.bias = of_bias.to(dtype).to(device)}) * weight.to(dtype).to(device)).backward();
    return std::vector<Tensor>{wide(x[0].grad()), wide(x[1].grad()), wide(x[2].grad())};
  };
  Tensor near = bias.clone();
  near.narrow(2, 5, 2).fill_(0.0);
  const std::vector<Tensor> got = gradients(bias, 0), expected = gradients(near, 0);
  for (size_t i = 0; i < got.size(); ++i) expect_close(got[i], expected[i], bound, bound);
  for (const Tensor& gradient : gradients(bias, 1)) EXPECT_TRUE(all(isfinite(gradient)).item<bool>());
}

TEST(Attention, ARowOfTheLeastFiniteBiasesIsTheMeanOfItsValues) {
  std::vector<Device> devices{Device()};
  if (cuda::device_count() > 0) devices.push_back(Device::cuda());
  for (const Device device : devices) {
    for (const double least : {-3.3895313892515355e38, -1e10, -2e9, -1e9})
      expect_means_of_far_rows(device, DType::bfloat16, least);
    for (const double least : {-3.4028234663852886e38, -1e9}) expect_means_of_far_rows(device, DType::float32, least);
    expect_means_of_far_rows(device, DType::float64, -1.7976931348623157e308);
  }
}

TEST(Attention, SpareRowsBehindTheKeysHaveNoPart) {
  const std::vector<int64_t> rows = {5, 1, 3, 20, 2}, used = {4, 0, 70, 33, 1}, room = {6, 3, 70, 90, 1};
  const NestedTensor q = NestedTensor::from_lengths(random_tensor({31, 4, 6}), rows);
  std::vector<Tensor> keys, values, key_rows, value_rows;
  for (size_t b = 0; b < rows.size(); ++b) {
    for (const auto& [dim, kept, all] : {std::tuple(6, &keys, &key_rows), std::tuple(5, &values, &value_rows)}) {
      const Tensor x = full({room[b], 2, dim}, std::nan(""), DType::float64);
      kept->push_back(random_tensor({used[b], 2, dim}));
      x.slice(0, 0, used[b]).copy_(kept->back());
      all->push_back(x);
    }
  }
  const auto gradients = [&](const NestedTensor& k, const NestedTensor& v, const AttentionOptions& options) {
    for (const NestedTensor* x : {&q, &k, &v}) x->values().set_grad({}), x->requires_grad_();
    const NestedTensor out = attention(q, k, v, options);
    sum(square(out.values())).backward();
    return std::tuple(out.values().detach(), q.grad().values(), k.grad(), v.grad());
  };
  for (const Band& band : kBands) {
    const auto [out, dq, dk, dv] = gradients(NestedTensor::from_list(keys), NestedTensor::from_list(values), {.mask = band.mask});
    const auto [out_, dq_, dk_, dv_] = gradients(NestedTensor::from_list(key_rows), NestedTensor::from_list(value_rows),
                                                 {.mask = band.mask, .key_lengths = used});
    expect_equal(out_, out);
    expect_equal(dq_, dq);
    for (int64_t b = 0; b < std::ssize(rows); ++b) {
      for (const auto& [got, expected] : {std::pair(dk_[b], dk[b]), std::pair(dv_[b], dv[b])}) {
        const int64_t count = expected.size(0);
        expect_equal(got.slice(0, 0, count), expected);
        expect_equal(got.slice(0, count, got.size(0)), zeros_like(got.slice(0, count, got.size(0))));
      }
    }
  }
}

TEST(Attention, ASequenceHasTheSameBitsAloneAndInAnyBatch) {
  const OnDevice host{Device()};  // a GPU's kernels are chosen for whole batches
  for (const DType dtype : {DType::float64, DType::float32, DType::bfloat16}) {
    // Steps of one row on caches of several lengths beside prompts: both kernels, and several chunks of keys.
    const std::vector<int64_t> rows = {1, 40, 1, 1, 3, 1}, used = {900, 40, 1, 300, 64, 0}, room = {1000, 40, 33, 300, 80, 5};
    const NestedTensor q = NestedTensor::from_lengths(random_tensor({47, 4, 16}, dtype), rows);
    const NestedTensor k = NestedTensor::from_lengths(random_tensor({1458, 2, 16}, dtype), room),
                       v = NestedTensor::from_lengths(random_tensor({1458, 2, 16}, dtype), room);
    const NestedTensor out = attention(q, k, v, {.mask = masks::causal(), .key_lengths = used});
    for (int64_t b = 0; b < 6; ++b) {
      const auto alone = [&](const Tensor& x, int64_t count) { return x.slice(0, 0, count).clone().unsqueeze(0); };
      const int64_t keys = used[static_cast<size_t>(b)];
      expect_equal(out[b], attention(q[b].unsqueeze(0), alone(k[b], keys), alone(v[b], keys), {.mask = masks::causal()})[0]);
    }
  }
}

// Head dims of whole vectors, whose keys are read where they lie.
TEST(Attention, TwoDecodedRowsHaveTheBitsOfTwoSteps) {
  const OnDevice host{Device()};  // whose reference is asked for
  for (const auto& [dtype, tolerance] :
       {std::pair(DType::float64, 1e-12), std::pair(DType::float32, 1e-5), std::pair(DType::bfloat16, 2e-2)}) {
    for (const int64_t keys : {2, 3, 5, 6, 7, 8, 63, 64, 65, 66, 131, 200}) {
      const Tensor q = random_tensor({1, 2, 4, 64}, dtype), k = random_tensor({1, keys, 2, 64}, dtype),
                   v = random_tensor({1, keys, 2, 64}, dtype);
      const Tensor both = attention(q, k, v, {.mask = masks::causal()});
      const auto but_one = [&](const Tensor& x) { return x.slice(1, 0, keys - 1); };
      expect_equal(both.slice(1, 0, 1), attention(q.slice(1, 0, 1), but_one(k), but_one(v), {.mask = masks::causal()}));
      const auto wide = [](const Tensor& x) { return to(x, DType::float64); };
      setenv("DECKLE_FORCE", "attention:reference", 1);
      const Tensor expected = attention(wide(q), wide(k), wide(v), {.mask = masks::causal()});
      unsetenv("DECKLE_FORCE");
      expect_close(wide(both), expected, tolerance);
    }
  }
}

TEST(Attention, EveryDerivativeBesideSpareRows) {
  const Tensor q = random_tensor({2, 2, 2, 3}), k = random_tensor({2, 4, 1, 3}), v = random_tensor({2, 4, 1, 2});
  expect_every_derivative(
      [&](const Tensor& a, const Tensor& b, const Tensor& c) {
        return attention_with_lse(a, b, c, {.mask = masks::causal(), .key_lengths = {3, 2}});
      },
      std::tuple(q, k, v));
}

TEST(Attention, ANanInOneSequenceReachesNoOther) {
  const Tensor values = random_tensor({66, 2, 4});
  const NestedTensor clean = NestedTensor::from_lengths(values, {30, 33, 3});  // two fused, one decoded
  const NestedTensor spoiled = NestedTensor::from_lengths(values.clone(), {30, 33, 3});
  spoiled[1].fill_(std::nan(""));
  spoiled.requires_grad_();
  clean.requires_grad_();
  const NestedTensor a = attention(clean, clean, clean), b = attention(spoiled, spoiled, spoiled);
  sum(square(a.values())).backward();
  square(b.values()).backward(random_tensor({66, 2, 4}) * 0.0 + 1.0);
  for (const int64_t component : {0, 2}) {
    expect_equal(b[component].detach(), a[component].detach());
    expect_equal(spoiled.grad()[component], clean.grad()[component]);
  }
}

}  // namespace
}  // namespace deckle
