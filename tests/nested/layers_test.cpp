// Convolution, pooling, norms over positions and losses.

#include "deckle/nested/generated/conv.h"
#include "deckle/nested/generated/loss.h"
#include "deckle/nested/generated/norm.h"
#include "deckle/nested/generated/pointwise.h"
#include "deckle/nested/generated/reduce.h"
#include "deckle/nested/operators.h"
#include "deckle/nested/pooling.h"
#include "deckle/ops/generated/conv.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/loss.h"
#include "deckle/ops/generated/matmul.h"
#include "deckle/ops/generated/norm.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "tests/nested/support.h"

namespace deckle {
namespace {

using namespace testing;

/// Convolution of one sequence [L, in] by its definition.
Tensor naive_conv(const Tensor& x, const Tensor& weight, const Tensor& bias, int64_t stride, Padding padding, int64_t dilation,
                  int64_t groups) {
  const int64_t length = x.size(0), out = weight.size(0), in = weight.size(1), size = weight.size(2),
                reach = (size - 1) * dilation;
  const int64_t before = padding == Padding::same ? reach / 2 : padding == Padding::causal ? reach : 0;
  const int64_t all = padding == Padding::valid ? length : length + reach;
  const int64_t windows = length == 0 || all <= reach ? 0 : (all - reach - 1) / stride + 1;
  const Tensor result = zeros_raw({windows, out}, DType::float64, Device());
  const std::vector<double> xs = x.to_vector(), ws = weight.to_vector();
  for (int64_t t = 0; t < windows; ++t) {
    for (int64_t o = 0; o < out; ++o) {
      double sum = bias.defined() ? bias[o].item() : 0.0;
      const int64_t first = o / (out / groups) * in;
      for (int64_t c = 0; c < in; ++c) {
        for (int64_t k = 0; k < size; ++k) {
          const int64_t at = t * stride + k * dilation - before;
          if (at >= 0 && at < length)
            sum += ws[static_cast<size_t>((o * in + c) * size + k)] * xs[static_cast<size_t>(at * x.size(1) + first + c)];
        }
      }
      result.data<double>()[t * out + o] = sum;
    }
  }
  return result;
}

TEST(NestedConv1d, EqualsTheDefinitionForEachComponent) {
  for (const auto& lengths : ragged_patterns()) {
    const NestedTensor x = random_nested(lengths, {4});
    for (const Padding padding : {Padding::valid, Padding::same, Padding::causal}) {
      for (const auto& [size, stride, dilation, groups] : {std::tuple(3, 1, 1, 1), std::tuple(2, 2, 1, 2), std::tuple(3, 1, 2, 4),
                                                           std::tuple(4, 3, 1, 1), std::tuple(1, 1, 1, 1)}) {
        const Tensor weight = random_tensor({4, 4 / groups, size}), bias = groups == 2 ? Tensor() : random_tensor({4});
        expect_components(conv1d(x, weight, bias, {.stride = stride, .padding = padding, .dilation = dilation, .groups = groups}),
                          x.components(), [&, stride = stride, dilation = dilation, groups = groups](int64_t b) {
                            return naive_conv(x[b], weight, bias, stride, padding, dilation, groups);
                          });
        for (int64_t b = 0; b < x.components(); ++b)
          expect_close(conv1d(x[b], weight, bias, {.stride = stride, .padding = padding, .dilation = dilation, .groups = groups}),
                       naive_conv(x[b], weight, bias, stride, padding, dilation, groups), 1e-12, 1e-12);
      }
    }
  }
  const NestedTensor x = random_nested({3, 0, 5, 1}, {2});
  for (const int64_t groups : {1, 2}) {
    const auto f = [&](const NestedTensor& a, const Tensor& w, const Tensor& b) {
      return conv1d(a, w, b, {.padding = Padding::same, .groups = groups});
    };
    expect_gradients(f, std::tuple(x, random_tensor({2, 2 / groups, 3}), random_tensor({2})));
  }
  expect_error([&] { conv1d(x, random_tensor({3, 3, 2})); }, "for weight [3, 3, 2] in 1 groups");
}

TEST(NestedWindows, ShapesAreMadeOncePerRaggedShape) {
  for (const int ragged_dims : {1, 2}) {
    const Ragged ragged(std::make_shared<const RaggedShape>(std::vector<int64_t>{5, 3, 0, 4, 7, 2}, ragged_dims));
    const NestedTensor x(random_tensor({ragged->rows(), 3}), ragged), other(random_tensor({ragged->rows(), 3}), ragged);
    const Tensor weight = random_tensor({4, 3, 2});
    EXPECT_EQ(&*conv1d(x, weight, {}, {.stride = 2}).ragged(), &*conv1d(other, weight, {}, {.stride = 2}).ragged());
    EXPECT_NE(*conv1d(x, weight, {}, {.stride = 2}).ragged(), *conv1d(x, weight, {}, {.stride = 3}).ragged());
    EXPECT_EQ(&*max_pool1d(x, 2).ragged(), &*avg_pool1d(other, 2).ragged());
    EXPECT_EQ(&*interpolate1d(x, 1.5, Interpolation::linear).ragged(),
              &*interpolate1d(other, 1.5, Interpolation::nearest).ragged());
    EXPECT_NE(*interpolate1d(x, 1.5, Interpolation::linear).ragged(), *interpolate1d(x, 2, Interpolation::linear).ragged());
  }
}

TEST(NestedInterpolate1d, ElementsBesideInfiniteAndLargeOnesStayNumbers) {
  for (const DType dtype : {DType::float32, DType::float64}) {
    const double large = dtype == DType::float32 ? 3e38 : 1.7e308;
    const Tensor x = tensor({INFINITY, 1.0, -large, large}).to(dtype);
    const auto at = [&](const Tensor& values, const std::vector<int64_t>& lengths, double scale) {
      return interpolate1d(NestedTensor::from_lengths(reshape(values, {values.size(0), 1}), lengths), scale,
                           Interpolation::linear);
    };
    const std::vector<double> y = at(x, {2, 2}, 2).values().to_vector();
    for (const int64_t i : {0, 1, 2}) EXPECT_EQ(y[static_cast<size_t>(i)], INFINITY) << i;
    EXPECT_EQ(y[3], 1);
    EXPECT_NEAR(y[5] / large, -0.5, 1e-6);
    EXPECT_NEAR(y[6] / large, 0.5, 1e-6);
    const Tensor same = full({7}, 0.1).to(dtype);
    for (const double value : at(same, {7}, 1.7).values().to_vector()) EXPECT_EQ(value, same.to_vector()[0]);
  }
  // Places of scale 1 / 3 are the rows 3 i + 1, but for roundings: what stands before these has no part in them.
  const int64_t rows = 30;
  const Tensor x = zeros({rows, 1}).to(DType::float32);
  for (int64_t i = 0; i < rows; i += 3) x[i] = INFINITY;
  const NestedTensor y = interpolate1d(NestedTensor::from_lengths(x, {rows}), 1.0 / 3, Interpolation::linear);
  for (const double value : y.values().to_vector()) EXPECT_EQ(value, 0);
}

TEST(NestedConv1d, AStrideLongerThanASequenceCostsNothing) {
  constexpr int64_t kStride = int64_t{1} << 40;  // of as many residues few have rows
  const NestedTensor x = random_nested({3, 0, 6}, {4});
  const Tensor w = random_tensor({5, 4, 2});
  const auto f = [&](const NestedTensor& a, const Tensor& b) { return conv1d(a, b, {}, {.stride = kStride}); };
  const auto starts = [&](int64_t at) { return select(w, 2, at); };
  expect_components(f(x, w), 3, [&](int64_t b) {
    return x[b].size(0) < 2 ? zeros({0, 5}, DType::float64)
                            : matmul(narrow(x[b], 0, 0, 1), transpose(starts(0), 0, 1)) +
                                  matmul(narrow(x[b], 0, 1, 1), transpose(starts(1), 0, 1));
  });
  expect_gradients(f, std::tuple(x, w));
  expect_gradients([&](const Tensor& a, const Tensor& b) { return conv1d(a, b, {}, {.stride = kStride}); },
                   std::tuple(random_tensor({2, 3, 4}), random_tensor({3, 4, 2})));
}

TEST(NestedPooling, OneRowForEachComponent) {
  for (const auto& lengths : ragged_patterns()) {
    const NestedTensor x = random_nested(lengths, {3});
    for (const Pooling pooling : {Pooling::average, Pooling::max, Pooling::first, Pooling::last}) {
      const Tensor got = pool(x, pooling).dense();
      for (int64_t b = 0; b < x.components(); ++b) {
        const Tensor zero = zeros_raw({3}, DType::float64, Device());
        const bool none = x[b].size(0) == 0;
        expect_close(got[b], none                          ? zero
                             : pooling == Pooling::average ? mean(x[b], Ints{0})
                             : pooling == Pooling::max     ? amax(x[b], Ints{0})
                                                           : x[b][pooling == Pooling::first ? 0 : -1]);
      }
    }
  }
  for (const Pooling pooling : {Pooling::average, Pooling::max, Pooling::first, Pooling::last})
    expect_gradients([&](const NestedTensor& a) { return pool(a * a, pooling); }, random_nested({3, 0, 2}, {2}));
}

TEST(NestedPooling, WindowsAlongTheRaggedDim) {
  for (const auto& lengths : ragged_patterns()) {
    const NestedTensor x = random_nested(lengths, {3});
    for (const Padding padding : {Padding::valid, Padding::same}) {
      expect_components(max_pool1d(x, 2, {.padding = padding}), x.components(),
                        [&](int64_t b) { return max_pool1d(x[b], 2, {.padding = padding}); });
      expect_components(avg_pool1d(x, 3, {.stride = 1, .padding = padding}), x.components(),
                        [&](int64_t b) { return avg_pool1d(x[b], 3, {.stride = 1, .padding = padding}); });
    }
  }
  const Tensor y = random_tensor({5, 1});
  const std::vector<double> v = y.to_vector();
  expect_close(avg_pool1d(y, 3, {.stride = 2, .padding = Padding::same}).flatten(),
               tensor_of({(v[0] + v[1]) / 2, (v[1] + v[2] + v[3]) / 3, (v[3] + v[4]) / 2}));
  expect_close(max_pool1d(y, 2).flatten(), tensor_of({std::max(v[0], v[1]), std::max(v[2], v[3])}));
  expect_gradients([](const NestedTensor& a) { return max_pool1d(a * a, 2, {.stride = 1}); }, random_nested({3, 0, 1}, {2}));
  expect_gradients([](const NestedTensor& a) { return avg_pool1d(a * a, 2, {.stride = 1, .padding = Padding::same}); },
                   random_nested({3, 0, 1}, {2}));
}

// Whose stride is no number of rows that could be added to another.
TEST(NestedPooling, WindowsFarApart) {
  const int64_t far = std::numeric_limits<int64_t>::max();
  for (const bool mean : {true, false}) {
    const Tensor values = random_tensor({5, 2}).requires_grad_();
    const NestedTensor x = NestedTensor::from_lengths(values, {3, 2});
    sum((mean ? avg_pool1d(x, 1, {.stride = far}) : max_pool1d(x, 1, {.stride = far})).values()).backward();
    expect_close(values.grad().flatten(), tensor_of({1, 1, 0, 0, 0, 0, 1, 1, 0, 0}));
  }
}

TEST(NestedNorms, GroupsOfChannelsOfEachComponent) {
  const Tensor weight = random_tensor({4}), bias = random_tensor({4});
  for (const auto& lengths : ragged_patterns()) {
    const NestedTensor x = random_nested(lengths, {2, 4});
    for (const Tensor& w : {weight, Tensor()}) {
      for (const Tensor& c : {bias, Tensor()}) {
        const NestedTensor y = group_norm(x, 2, w, c, 0.1);
        for (int64_t b = 0; b < x.components(); ++b) {
          if (x[b].size(0) == 0) continue;
          const Tensor groups = x[b].reshape({x[b].size(0), 2, 2, 2});
          const Tensor centred = groups - mean(groups, Ints{0, 1, 3}, true);
          Tensor want = (centred / sqrt(mean(square(centred), Ints{0, 1, 3}, true) + 0.1)).reshape(x[b].sizes());
          if (w.defined()) want = want * w;
          expect_close(y[b], c.defined() ? want + c : want);
          expect_close(y[b], group_norm(x[b].unsqueeze(0), 2, w, c, 0.1)[0]);
        }
      }
    }
  }
  const auto f = [](const NestedTensor& x, const Tensor& w, const Tensor& b) { return group_norm(x, 2, w, b, 0.1); };
  expect_gradients(f, std::tuple(random_nested({3, 0, 1}, {4}), weight, bias));
  expect_error([&] { group_norm(random_nested({2}, {4}), 3); }, "num_groups is 3 (expected a divisor of 4, the channels)");
}

TEST(NestedNorms, BatchNormOverAllPositions) {
  const NestedTensor x = random_nested({3, 0, 4}, {3});
  const Tensor rows = x.values(), centred = rows - mean(rows, Ints{0});
  expect_close(batch_norm(x, {}, {}, {}, {}, 0.1).values(), centred / sqrt(mean(square(centred), Ints{0}) + 0.1));
  const Tensor m = random_tensor({3}), v = square(random_tensor({3}));
  expect_close(batch_norm(x, m, v, m, v, 0.1).values(), (rows - m) / sqrt(v + 0.1) * m + v);
  expect_error([&] { batch_norm(random_nested({2, 3}, {})); }, "the last dim of shape [2, 2..3] is ragged");
  const auto f = [](const NestedTensor& a, const Tensor& w, const Tensor& b) { return batch_norm(a, w, b, {}, {}, 0.1); };
  expect_gradients(f, std::tuple(x, m, v));
}

TEST(NestedNorms, BatchNormOfNoRowsHasGradientsOfZero) {
  for (const bool given : {false, true}) {
    const Tensor w = ones({3}).requires_grad_(), b = ones({3}).requires_grad_(), s = given ? ones({3}) : Tensor();
    sum(batch_norm(zeros({0, 3}), w, b, s, s)).backward();
    expect_equal(w.grad(), zeros({3}));
    expect_equal(b.grad(), zeros({3}));
    w.set_grad({});
    sum(batch_norm(NestedTensor::from_lengths(zeros({0, 3}), {0}), w, b, s, s).values()).backward();
    expect_equal(w.grad(), zeros({3}));
  }
}

TEST(NestedLosses, PerTokenPerSequencePerBatch) {
  const std::vector<int64_t> lengths = {3, 0, 4};
  const NestedTensor x = random_nested(lengths, {2}), y = random_nested(lengths, {2});
  expect_close(mse_loss(x, y), mean(square(x.values() - y.values())));
  expect_close(mse_loss(x, y, {.reduction = Reduction::sum}), sum(square(x.values() - y.values())));
  expect_close(mse_loss(x, y, {.reduction = Reduction::token}), mean(square(x.values() - y.values()), Ints{1}));
  const Tensor sequences = mse_loss(x, y, {.reduction = Reduction::sequence});
  expect_close(sequences[0], mse_loss(x[0], y[0]));
  EXPECT_EQ(sequences[1].item(), 0.0);
  expect_close(sequences[2], mse_loss(x[2], y[2]));
  for (const Reduction reduction : {Reduction::none, Reduction::token, Reduction::sequence, Reduction::sum, Reduction::mean}) {
    expect_gradients([&](const NestedTensor& a, const NestedTensor& b) { return mse_loss(a, b, {.reduction = reduction}); },
                     std::tuple(x, y));
    expect_gradients(
        [&](const NestedTensor& a, const NestedTensor& b) {
          return binary_cross_entropy_with_logits(a, sigmoid(b), {.reduction = reduction});
        },
        std::tuple(x, y));
  }
  expect_error([&] { mse_loss(x.values(), y.values(), {.reduction = Reduction::token}); },
               "reduction is 'token' (expected mean, sum or none)");
  expect_error([&] { huber_loss(x, y, {.delta = 0.0}); }, "huber_loss: delta is 0 (expected more than 0)");
  expect_error([&] { huber_loss(x.values(), y.values(), {.delta = std::nan("")}); }, "delta is nan (expected more than 0)");
  expect_error([&] { smooth_l1_loss(x, y, {.beta = -1.0}); }, "smooth_l1_loss: beta is -1 (expected 0 or more)");
  expect_close(smooth_l1_loss(x, y, {.beta = 0.0}), l1_loss(x, y));
}

TEST(NestedLosses, OfClassesCountWhatIsNotIgnored) {
  const std::vector<int64_t> lengths = {3, 0, 4};
  const NestedTensor logits = random_nested(lengths, {5}), classes = random_indices(lengths, 5);
  classes.values()[1].fill_(-100);
  const Tensor losses = cross_entropy(logits.values(), classes.values(), {.reduction = Reduction::none});
  expect_close(cross_entropy(logits, classes), sum(losses) / 6.0);
  expect_close(cross_entropy(logits, classes, {.reduction = Reduction::token}), losses);
  const Tensor sequences = cross_entropy(logits, classes, {.reduction = Reduction::sequence});
  expect_close(sequences[0], (losses[0] + losses[2]) / 2.0);
  EXPECT_EQ(sequences[1].item(), 0.0);
  expect_close(nll_loss(log_softmax(logits, -1), classes, {.reduction = Reduction::sequence}), sequences);
  expect_gradients(
      [&](const NestedTensor& a) {
        return cross_entropy(a, classes, {.label_smoothing = 0.1, .reduction = Reduction::sequence});
      },
      logits);
}

TEST(NestedLosses, OfProbabilitiesAreMeansOverRows) {
  const std::vector<int64_t> lengths = {3, 0, 4};
  const NestedTensor logits = random_nested(lengths, {5}), p = softmax(random_nested(lengths, {5}), -1);
  const auto dense = [](const Tensor& x, const Tensor& y, Reduction reduction) {
    return cross_entropy(x, y, {.label_smoothing = 0.1, .reduction = reduction});
  };
  const auto nested = [](const NestedTensor& x, const NestedTensor& y, Reduction reduction) {
    return cross_entropy(x, y, {.label_smoothing = 0.1, .reduction = reduction});
  };
  for (const Reduction reduction : {Reduction::none, Reduction::sum, Reduction::mean})
    expect_close(nested(logits, p, reduction), dense(logits.values(), p.values(), reduction));
  expect_close(nested(logits, p, Reduction::token), dense(logits.values(), p.values(), Reduction::none));
  for (const NestedTensor& x : {logits, random_nested({2}, {2}), random_nested({1, 4, 2, 2, 0}, {5})}) {  // B < C, 1, C
    const NestedTensor q = softmax(NestedTensor(random_tensor(x.values().sizes()), x.ragged()), -1);
    const Tensor sequences = nested(x, q, Reduction::sequence);
    EXPECT_EQ(Dims(sequences.sizes()), Dims({x.components()}));
    for (int64_t b = 0; b < x.components(); ++b) {
      if (x[b].size(0) == 0)
        EXPECT_EQ(sequences[b].item(), 0.0);
      else
        expect_close(sequences[b], dense(x[b], q[b], Reduction::mean));
    }
  }
  for (const Reduction reduction : {Reduction::none, Reduction::token, Reduction::sequence, Reduction::sum, Reduction::mean})
    expect_gradients([&](const NestedTensor& x, const NestedTensor& y) { return nested(x, y, reduction); },
                     std::tuple(logits, p));
  const NestedTensor flat = random_nested(lengths, {});
  expect_error([&] { cross_entropy(flat, flat); }, "the last dim of shape [3, 0..4] is ragged (expected a regular dim");
}

TEST(NestedLosses, OfClassesAtSeveralPlacesOfARowAreOneOfASequence) {
  const std::vector<int64_t> lengths = {3, 0, 4};
  const NestedTensor logits = random_nested(lengths, {5, 2}), p = softmax(random_nested(lengths, {5, 2}), 2);
  const NestedTensor first = random_indices(lengths, 5), second = random_indices(lengths, 5);
  first.values()[1].fill_(-100);
  second.values().slice(0, 1, 3).fill_(-100);
  const NestedTensor classes(stack({first.values(), second.values()}, 1), first.ragged());
  const auto f = [&](const NestedTensor& x, Reduction reduction) { return cross_entropy(x, classes, {.reduction = reduction}); };
  const Tensor losses = f(logits, Reduction::none), sequences = f(logits, Reduction::sequence);
  EXPECT_EQ(Dims(losses.sizes()), Dims({7, 2}));
  EXPECT_EQ(Dims(sequences.sizes()), Dims({3}));
  expect_close(sequences[0], cross_entropy(logits[0], classes[0]));
  EXPECT_EQ(sequences[1].item(), 0.0);
  expect_close(sequences[2], cross_entropy(logits[2], classes[2]));
  const Tensor tokens = f(logits, Reduction::token);
  EXPECT_EQ(Dims(tokens.sizes()), Dims({7}));
  expect_close(tokens[0], (losses[0][0] + losses[0][1]) / 2.0);
  EXPECT_EQ(tokens[1].item(), 0.0);  // neither counts
  expect_close(tokens[2], losses[2][0]);
  const Tensor likely = cross_entropy(logits, p, {.reduction = Reduction::sequence});
  expect_close(likely[2], cross_entropy(logits[2], p[2]));
  for (const Reduction reduction : {Reduction::token, Reduction::sequence})
    expect_gradients([&](const NestedTensor& x) { return f(x, reduction); }, logits);
}

TEST(NestedLosses, OfNothingAreZeroInASequenceAndNaNAsAMean) {
  const NestedTensor none = random_nested({0, 0}, {2}),
                     ignored(full({3}, -100, DType::int64), Ragged::from_lengths(std::vector<int64_t>{1, 2}));
  EXPECT_TRUE(std::isnan(mse_loss(none, none).item()));
  EXPECT_EQ(mse_loss(none, none, {.reduction = Reduction::sequence}).to_vector(), (std::vector<double>{0, 0}));
  const NestedTensor logits(random_tensor({3, 5}), ignored.ragged());
  EXPECT_TRUE(std::isnan(cross_entropy(logits, ignored).item()));
  EXPECT_EQ(cross_entropy(logits, ignored, {.reduction = Reduction::sequence}).to_vector(), (std::vector<double>{0, 0}));
  for (const double value : mean(none, Ints{1}).values().to_vector()) EXPECT_TRUE(std::isnan(value)) << "the mean of no rows";
}

TEST(Losses, EqualTheirDefinitions) {
  const Tensor x = random_tensor({50}), y = random_tensor({50}), p = sigmoid(y);
  const std::vector<double> xs = x.to_vector(), ys = y.to_vector(), ps = p.to_vector();
  const auto expect_mean = [&](const Tensor& got, auto&& element) {
    double total = 0;
    for (size_t i = 0; i < xs.size(); ++i) total += element(i);
    EXPECT_NEAR(got.item(), total / 50, 1e-12);
  };
  const auto d = [&](size_t i) { return std::abs(xs[i] - ys[i]); };
  expect_mean(l1_loss(x, y), d);
  expect_mean(smooth_l1_loss(x, y, {.beta = 0.7}), [&](size_t i) { return d(i) < 0.7 ? d(i) * d(i) / 1.4 : d(i) - 0.35; });
  expect_mean(huber_loss(x, y, {.delta = 0.7}), [&](size_t i) { return d(i) < 0.7 ? d(i) * d(i) / 2 : 0.7 * (d(i) - 0.35); });
  expect_mean(binary_cross_entropy_with_logits(x, p), [&](size_t i) {
    const double q = 1 / (1 + std::exp(-xs[i]));
    return -ps[i] * std::log(q) - (1 - ps[i]) * std::log(1 - q);
  });
  expect_mean(kl_div(x, p), [&](size_t i) { return ps[i] * (std::log(ps[i]) - xs[i]); });
  EXPECT_EQ(kl_div(tensor_of({-1.0, -2.0}), tensor_of({0.0, 0.0}), {.reduction = Reduction::sum}).item(), 0.0);
}

}  // namespace
}  // namespace deckle
