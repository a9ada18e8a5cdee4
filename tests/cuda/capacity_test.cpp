// Batches whose lengths lie on the device: what they compute, what they refuse, and a step over them as one graph.
#include <cmath>
#include <memory>
#include <thread>
#include <vector>

#include "deckle/autograd/meta.h"
#include "deckle/core/cuda/counters.h"
#include "deckle/core/cuda/graph.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/deckle.h"
#include "tests/cuda/gpu.h"
#include "tests/support/device_tolerances.h"
#include "tests/support/expect.h"

namespace deckle {
namespace {

constexpr nn::DecoderOptions kModel{.vocab = 31, .d_model = 128, .depth = 2, .heads = 2, .kv_heads = 1, .hidden = 160, .seed = 3};
constexpr int64_t kComponents = 6, kRows = 200, kLongest = 90;

using Lengths = std::vector<int64_t>;

int64_t total(const Lengths& lengths) {
  int64_t sum = 0;
  for (const int64_t length : lengths) sum += length;
  return sum;
}

/// Tokens of a chain that can be learned.
Tensor tokens(int64_t count, int64_t first) {
  const OnDevice host{Device()};
  const Tensor values = empty({count}, DType::int64);
  int64_t token = first % 31;
  for (int64_t i = 0; i < count; ++i) {
    values.data<int64_t>()[i] = token;
    token = (token * 7 + (i % 3 == 0 ? 1 : 4)) % 31;
  }
  return values;
}

const std::vector<Lengths>& batches() {
  static const std::vector<Lengths> all = {{50, 0, 70, 1, 39}, {90, 3, 2},         {33, 33, 33, 33, 33, 33}, {2},
                                           {80, 80, 40},       {7, 0, 0, 0, 0, 64}};
  return all;
}

/// A decoder that trains in a room, or on batches whose lengths are known.
struct Training {
  explicit Training(const nn::DecoderOptions& options = kModel, std::optional<DType> autocast = DType::bfloat16)
      : model(placed(options)), optimizer(model.parameters(), {.lr = 3e-3}), autocast(autocast) {
    optimizer.count_on_device(room.overflow());
  }
  static nn::DecoderLM placed(const nn::DecoderOptions& options) {
    nn::DecoderLM model(options);
    model.to(kGpu);
    return model;
  }

  void load(const Lengths& lengths, int64_t first) {
    room.set_lengths(lengths);
    const int64_t rows = std::min(total(lengths), kRows);
    slice(buffer, 0, 0, rows).copy_(tokens(rows, first).to(kGpu));
  }
  void step() { step_on(NestedTensor(buffer, room.ragged())); }
  void step_on(const NestedTensor& batch) {
    optimizer.zero_grad();
    {
      const Autocast scope(autocast);
      loss = model.loss(batch);
    }
    loss.backward();
    norm = optim::clip_gradient_norm_on_device(model.parameters(), 1.0);
    optimizer.step();
  }

  RaggedCapacity room{{.components = kComponents, .rows = kRows, .longest = kLongest}, kGpu};
  Tensor buffer = zeros({kRows}, DType::int64, kGpu);
  nn::DecoderLM model;
  optim::AdamW optimizer;
  std::optional<DType> autocast;
  Tensor loss, norm;
};

void expect_same_bits(const Training& a, const Training& b) {
  const auto state = a.model.state(), other = b.model.state();
  for (const auto& [name, tensor] : state) EXPECT_EQ(tensor.to_vector(), other.at(name).to_vector()) << name;
}

double relative(const Tensor& a, const Tensor& b) {
  const Tensor x = a.to(DType::float64).to(Device()), y = b.to(DType::float64).to(Device());
  return norm(x - y).item() / (norm(y).item() + 1e-12);
}

/// In bfloat16, and in float32, whose attention is another's.
constexpr std::optional<DType> kAutocasts[] = {DType::bfloat16, std::nullopt};

void expect_the_step_of_known_lengths(std::optional<DType> autocast) {
  const bool exact = !autocast;
  Training room(kModel, autocast), known(kModel, autocast);
  for (size_t i = 0; i < batches().size(); ++i) {
    const auto first = static_cast<int64_t>(i);
    room.load(batches()[i], first);
    room.step();
    known.step_on(NestedTensor::from_lengths(tokens(total(batches()[i]), first), batches()[i]));
    EXPECT_NEAR(room.loss.item() / known.loss.item(), 1, testing::tolerances::kRoom.in(!exact)) << "batch " << i;
    const std::vector<Tensor> gradients = room.model.parameters(), expected = known.model.parameters();
    for (size_t p = 0; i == 0 && p < gradients.size(); ++p)
      EXPECT_LT(relative(gradients[p].grad(), expected[p].grad()), testing::tolerances::kRoomGradients.in(!exact))
          << "parameter " << p;
    EXPECT_FALSE(room.room.overflowed());
  }
}

TEST(CudaCapacity, ADecodersStepIsThatOfKnownLengths) {
  NEEDS_GPU();
  for (const std::optional<DType> autocast : kAutocasts) expect_the_step_of_known_lengths(autocast);
}

TEST(CudaCapacity, SpareRowsAreZeroForwardAndBackward) {
  NEEDS_GPU();
  RaggedCapacity room({.components = 3, .rows = 10, .longest = 6}, kGpu);
  room.set_lengths(Lengths{4, 0, 3});
  const Tensor values = randn({10, 4}).to(kGpu).detach().requires_grad_();
  const Tensor gain = ones({4}, DType::float32, kGpu), shift = full({4}, 2, DType::float32, kGpu).requires_grad_();
  const NestedTensor y = layer_norm(NestedTensor(values, room.ragged()), gain, shift);
  testing::expect_equal(slice(y.values(), 0, 7, 10), zeros({3, 4}, DType::float32, kGpu));
  deckle::sum(y.values() * y.values() + y.values()).backward();  // each gradient of a spare row would be 1
  const NestedTensor expected_in = NestedTensor::from_lengths(slice(values, 0, 0, 7).detach().requires_grad_(), {4, 0, 3});
  const Tensor expected_shift = shift.detach().requires_grad_();
  const Tensor flat = layer_norm(expected_in.values(), gain, expected_shift);
  deckle::sum(flat * flat + flat).backward();
  testing::expect_close(shift.grad(), expected_shift.grad(), 1e-4, 1e-5);
  testing::expect_close(slice(values.grad(), 0, 0, 7), expected_in.values().grad(), 1e-4, 1e-5);
  testing::expect_equal(slice(values.grad(), 0, 7, 10), zeros({3, 4}, DType::float32, kGpu));
}

TEST(CudaCapacity, TheCallersTensorStaysAsItIs) {
  NEEDS_GPU();
  RaggedCapacity room({.components = 3, .rows = 6, .longest = 4}, kGpu);
  room.set_lengths(Lengths{3, 0, 1});
  const Tensor clear = tensor({1.0f, 1.0f, 1.0f, 1.0f, 0.0f, 0.0f}).reshape({6, 1}).to(kGpu);
  const Tensor data = (rand({7, 2}) + 1).to(kGpu), before = data.clone(), rows = slice(data, 0, 1, 7);  // a view
  const NestedTensor x(rows, room.ragged()), row(expand(slice(data, 0, 0, 1), {6, 2}), room.ragged());
  testing::expect_equal(data, before);
  testing::expect_equal(x.values(), slice(before, 0, 1, 7) * clear);
  testing::expect_equal(row.values(), expand(slice(before, 0, 0, 1), {6, 2}) * clear);
  const NestedTensor flags(full({6}, true, DType::bool_, kGpu), room.ragged());
  EXPECT_EQ(flags.values().to_vector<bool>(), (std::vector<bool>{true, true, true, true, false, false}));
  // What a backward pass reads: all rows of it, as they were.
  const Tensor leaf = rows.detach().clone().requires_grad_(), product = leaf * 2, square = product * product;
  const NestedTensor of_product(product, room.ragged());
  deckle::sum(square).backward();
  testing::expect_close(leaf.grad(), leaf.detach() * 8, 1e-6, 1e-6);
  fill_(slice(data, 0, 0, 7), 5);
  testing::expect_equal(x.values(), slice(before, 0, 1, 7) * clear);
}

TEST(CudaCapacity, LeavesKeepTheHooksThatTheyHave) {
  NEEDS_GPU();
  RaggedCapacity room({.components = 3, .rows = 6, .longest = 4}, kGpu);
  room.set_lengths(Lengths{3, 0, 1});
  const Tensor clear = tensor({1.0f, 1.0f, 1.0f, 1.0f, 0.0f, 0.0f}).reshape({6, 1}).to(kGpu);
  const Tensor leaf = (rand({6, 2}) + 1).to(kGpu).detach().requires_grad_();
  for (int i = 0; i < 3; ++i) deckle::sum((NestedTensor(leaf, room.ragged()).values() + 1) * 2).backward();
  EXPECT_EQ(leaf.impl()->meta->leaf_hooks.size(), 0u);
  testing::expect_equal(leaf.grad(), expand(clear, {6, 2}) * 6);
  const NestedTensor nested = NestedTensor(leaf.detach(), room.ragged()).requires_grad_();
  for (int i = 0; i < 3; ++i) {
    deckle::sum(nested.to(DType::float32).values() * 2).backward();  // the same tensor again
    EXPECT_EQ(nested.requires_grad_().values().impl()->meta->leaf_hooks.size(), 1u);
  }
  testing::expect_equal(nested.grad().values(), expand(clear, {6, 2}) * 6);
}

TEST(CudaCapacity, SpareRowsStayZeroInWhatIsWritten) {
  NEEDS_GPU();
  RaggedCapacity room({.components = 3, .rows = 6, .longest = 4}, kGpu);
  room.set_lengths(Lengths{3, 0, 1});
  const Tensor data = (rand({6, 2}) + 1).to(kGpu), spare = zeros({2, 2}, DType::float32, kGpu);
  const NestedTensor other(data * 3, room.ragged()), mask = lt(other, 0);
  const auto written = [&](const std::function<NestedTensor(const NestedTensor&)>& f) {
    const NestedTensor x(data * 2, room.ragged()), same = f(x);
    testing::expect_equal(slice(x.values(), 0, 4, 6), spare);
    testing::expect_equal(same.values(), x.values());
    return slice(x.values(), 0, 0, 4);
  };
  const Tensor rows = slice(data, 0, 0, 4) * 2;
  testing::expect_close(written([](const NestedTensor& x) { return log_(x); }), log(rows), 1e-6, 1e-6);
  testing::expect_close(written([](const NestedTensor& x) { return reciprocal_(x); }), reciprocal(rows), 1e-6, 1e-6);
  testing::expect_equal(written([](const NestedTensor& x) { return add_(x, 1); }), rows + 1);
  testing::expect_equal(written([](const NestedTensor& x) {
                          return add_(x, tensor({1.0f, 2.0f}).to(kGpu));
                        }),
                        rows + tensor({1.0f, 2.0f}).to(kGpu));
  testing::expect_equal(written([](const NestedTensor& x) { return fill_(x, 7); }), full({4, 2}, 7, DType::float32, kGpu));
  testing::expect_equal(written([&](const NestedTensor& x) { return masked_fill_(x, eq(mask, false), 5); }),
                        full({4, 2}, 5, DType::float32, kGpu));

  // Gradients through what is written: those of spare rows are zero, and nothing infinite meets them.
  const Tensor leaf = data.detach().requires_grad_(), weight = ones({2, 2}, DType::float32, kGpu).requires_grad_();
  const NestedTensor x(leaf * 1, room.ragged());
  log_(x);
  deckle::sum(matmul(x, weight).values()).backward();
  testing::expect_close(weight.grad(), matmul(transpose(log(slice(data, 0, 0, 4)), 0, 1), ones({4, 2}, DType::float32, kGpu)),
                        1e-5, 1e-5);
  testing::expect_close(slice(leaf.grad(), 0, 0, 4), 2 / slice(data, 0, 0, 4), 1e-5, 1e-5);
  testing::expect_equal(slice(leaf.grad(), 0, 4, 6), spare);
}

TEST(CudaCapacity, GradientsThatOthersShareKeepTheirSpareRows) {
  NEEDS_GPU();
  RaggedCapacity room({.components = 2, .rows = 4, .longest = 4}, kGpu);
  room.set_lengths(Lengths{2});
  const Tensor clear = tensor({1.0f, 1.0f, 0.0f, 0.0f}).reshape({4, 1}).to(kGpu), c = rand({4, 1}).to(kGpu) + 1;
  for (const bool dense_first : {true, false}) {  // the sum's gradient reaches both
    const Tensor w = ones({4, 1}, DType::float32, kGpu).requires_grad_(), u = ones({4, 1}, DType::float32, kGpu).requires_grad_();
    const Tensor z = dense_first ? w * 2 : Tensor(), h = u * 3, later = dense_first ? z : w * 2;
    const NestedTensor n(h, room.ragged());
    deckle::sum((n.values() + later) * c).backward();
    testing::expect_equal(w.grad(), c * 2);
    testing::expect_equal(u.grad(), c * clear * 3);
  }
  const Tensor u = ones({4, 1}, DType::float32, kGpu).requires_grad_(), given = ones({4, 1}, DType::float32, kGpu);
  NestedTensor(u * 3, room.ragged()).values().backward(given);
  testing::expect_equal(given, ones({4, 1}));
  testing::expect_equal(u.grad(), clear * 3);
}

/// The derivatives of these are not finite at zero, which is what spare rows hold.
TEST(CudaCapacity, GradientsOfDenseOperandsLeaveSpareRowsOut) {
  NEEDS_GPU();
  RaggedCapacity room({.components = 3, .rows = 8, .longest = 4}, kGpu);
  const Lengths lengths{3, 0, 2};
  room.set_lengths(lengths);
  const std::function<NestedTensor(const Tensor&, const NestedTensor&)> functions[] = {
      [](const Tensor& dense, const NestedTensor& x) { return dense / x; },
      [](const Tensor& dense, const NestedTensor& x) { return pow(x, dense); },
      [](const Tensor& dense, const NestedTensor& x) { return pow(x / dense, dense - 3); },
      [](const Tensor& dense, const NestedTensor& x) { return atan2(x, dense * 0) / (dense * x); },
  };
  const Tensor data = (rand({8, 2, 3}) + 1).to(kGpu);
  for (const Dims& sizes : {Dims{}, Dims{3}, Dims{1}, Dims{2, 1}, Dims{2, 3}, Dims{1, 1, 2, 3}}) {
    const Tensor start = (rand(sizes) + 2).to(kGpu), direction = rand(sizes).to(kGpu);
    for (size_t i = 0; i < std::size(functions); ++i) {
      SCOPED_TRACE("function " + std::to_string(i) + " of " + to_string(sizes));
      const auto squares = [&](const NestedTensor& x) {
        return [&, x](const Tensor& dense) {
          const Tensor values = functions[i](dense, x).values();
          return deckle::sum(values * values);
        };
      };
      const NestedTensor in_room(data.clone(), room.ragged()), known = NestedTensor::from_lengths(slice(data, 0, 0, 5), lengths);
      const auto [gradient, product] = hvp(squares(in_room), start, direction);
      const auto [expected, expected_product] = hvp(squares(known), start, direction);
      testing::expect_close(gradient, expected, 1e-4, 1e-5);
      testing::expect_close(product, expected_product, 1e-4, 1e-5);
      const Tensor along = direction.clone().requires_grad_(), twin = direction.clone().requires_grad_();
      jvp(squares(in_room), start, along).second.backward();  // reverse over forward
      jvp(squares(known), start, twin).second.backward();
      testing::expect_close(along.grad(), twin.grad(), 1e-4, 1e-5);
      const Tensor leaf = start.detach().requires_grad_();
      const Tensor first = grad({squares(in_room)(leaf)}, {leaf}, {.create_graph = true})[0];
      testing::expect_close(grad({deckle::sum(first * direction)}, {leaf})[0], expected_product, 1e-4, 1e-5);
    }
  }
}

/// A spare row is 0 / 0 there, and the gradients of weight and bias are sums over rows.
TEST(CudaCapacity, NormsWithoutEpsLeaveSpareRowsOut) {
  NEEDS_GPU();
  RaggedCapacity room({.components = 3, .rows = 8, .longest = 4}, kGpu);
  const std::function<NestedTensor(const NestedTensor&, const Tensor&, double)> norms[] = {
      [](const NestedTensor& x, const Tensor& dense, double eps) { return rms_norm(x, dense[0], eps) + dense[1]; },
      [](const NestedTensor& x, const Tensor& dense, double eps) { return layer_norm(x, dense[0], dense[1], eps); },
      [](const NestedTensor& x, const Tensor& dense, double eps) { return layer_norm(x, {}, {}, eps) * dense[0] + dense[1]; },
  };
  for (const Lengths& lengths : {Lengths{3, 0, 2}, Lengths{}, Lengths{9}}) {  // the last one does not fit: no rows
    room.set_lengths(lengths);
    const int64_t rows = total(lengths) > 8 ? 0 : total(lengths);
    const Lengths known_lengths = rows == 0 ? Lengths{0, 0, 0} : lengths;
    for (size_t i = 0; i < std::size(norms); ++i) {
      for (const double eps : {0.0, 1e-45, 1e-5}) {
        SCOPED_TRACE("norm " + std::to_string(i) + ", eps " + std::to_string(eps) + ", " + std::to_string(rows) + " rows");
        const Tensor data = randn({8, 5}, {.dtype = DType::float64}).to(kGpu);
        const Tensor start = randn({2, 5}, {.dtype = DType::float64}).to(kGpu);
        const Tensor direction = randn({2, 5}, {.dtype = DType::float64}).to(kGpu);
        const Tensor leaf = data.detach().clone().requires_grad_(), twin = data.detach().clone().requires_grad_();
        const NestedTensor in_room(leaf * 1, room.ragged());
        const NestedTensor known = NestedTensor::from_lengths(slice(twin * 1, 0, 0, rows), known_lengths);
        const auto squares = [&](const NestedTensor& x) {
          return [&, x](const Tensor& dense) {
            const Tensor values = norms[i](x, dense, eps).values();
            return deckle::sum(values * values);
          };
        };
        const auto [gradient, product] = hvp(squares(in_room), start, direction);
        const auto [expected, expected_product] = hvp(squares(known), start, direction);
        testing::expect_close(gradient, expected, 1e-10, 1e-10);
        testing::expect_close(product, expected_product, 1e-10, 1e-10);
        // Gradients of the rows and of what is dense, and of a function of both.
        const auto second = [&](const NestedTensor& x, const Tensor& values) {
          const Tensor dense = start.detach().clone().requires_grad_();
          const auto first = grad({squares(x)(dense)}, {dense, values}, {.create_graph = true});
          Tensor both = deckle::sum(first[0] * direction);
          both = both + deckle::sum(first[1] * first[1]);
          const auto next = grad({both}, {dense, values});
          return std::vector<Tensor>{first[0].detach(), first[1].detach(), next[0], next[1]};
        };
        const auto got = second(in_room, leaf), of_known = second(known, twin);
        for (size_t part = 0; part < got.size(); ++part) testing::expect_close(got[part], of_known[part], 1e-9, 1e-9);
      }
    }
  }
}

TEST(CudaCapacity, ABackwardPassAfterOtherLengthsIsRefused) {
  NEEDS_GPU();
  RaggedCapacity room({.components = 2, .rows = 6}, kGpu);
  room.set_lengths(Lengths{4, 2});
  const Tensor leaf = rand({6, 3}).to(kGpu).detach().requires_grad_();
  const Tensor loss = deckle::sum(mul(NestedTensor(leaf * 1, room.ragged()), 2).values());
  room.set_lengths(Lengths{1});
  testing::expect_error([&] { loss.backward(); }, "the lengths of the room were set since the forward pass");
}

TEST(CudaCapacity, SpareRowsAreZeroInSecondDerivativesAndTangents) {
  NEEDS_GPU();
  RaggedCapacity room({.components = 2, .rows = 4, .longest = 4}, kGpu);
  room.set_lengths(Lengths{2});
  const Tensor clear = tensor({1.0f, 1.0f, 0.0f, 0.0f}).reshape({4, 1}).to(kGpu);
  const auto leaf = [&] { return (rand({4, 1}).to(kGpu) + 1).detach().requires_grad_(); };
  const Tensor u = leaf(), c = leaf(), w = leaf().detach();
  // d/du sum(n c) = 3 c, of which the spare rows are zero; so they are in its derivative by c.
  const NestedTensor n(u * 3, room.ragged());
  const Tensor first = grad({deckle::sum(n.values() * c)}, {u}, {.create_graph = true})[0];
  testing::expect_equal(first, c.detach() * clear * 3);
  testing::expect_equal(grad({deckle::sum(first * w)}, {c})[0], w * clear * 3);

  const auto cubes = [&](const Tensor& x) {
    const NestedTensor rows(x * x * x, room.ragged());
    return rows.values() + 0.0;
  };
  const Tensor x = leaf().detach(), direction = leaf().detach();
  const auto [value, tangent] = jvp([&](const Tensor& at) { return cubes(at); }, x, direction);
  testing::expect_equal(value, x * x * x * clear);
  testing::expect_close(tangent, x * x * direction * clear * 3, 1e-6, 1e-6);
  // Forward over reverse: sum(3 x^2) of the rows that there are.
  const auto squares = [&](const Tensor& at) { return deckle::sum(NestedTensor(at * 3, room.ragged()).values() * at); };
  const auto [gradient, product] = hvp(squares, x, direction);
  testing::expect_close(gradient, x * clear * 6, 1e-6, 1e-6);
  testing::expect_close(product, direction * clear * 6, 1e-6, 1e-6);
}

TEST(CudaCapacity, PlacesOfRows) {
  NEEDS_GPU();
  RaggedCapacity room({.components = 4, .rows = 9, .longest = 5}, kGpu);
  const auto places = [&](const Lengths& lengths) {
    room.set_lengths(lengths);
    const RowPlaces found = row_places(room);
    return std::pair(found.position.to_vector<int64_t>(), found.next.to_vector<int64_t>());
  };
  auto [position, next] = places({2, 0, 4});
  EXPECT_EQ(Lengths(position.begin(), position.begin() + 6), (Lengths{0, 1, 0, 1, 2, 3}));
  EXPECT_EQ(next, (Lengths{1, -1, 3, 4, 5, -1, -1, -1, -1}));
  for (const int64_t at : position) EXPECT_LT(at, 5);
  std::tie(position, next) = places({});
  EXPECT_EQ(next, Lengths(9, -1));
  std::tie(position, next) = places({0, 5, 0, 4});
  EXPECT_EQ(position, (Lengths{0, 1, 2, 3, 4, 0, 1, 2, 3}));
}

TEST(CudaCapacity, WhatDoesNotFitIsSaidAndChangesNothing) {
  NEEDS_GPU();
  Training training, same;
  for (Training* each : {&training, &same}) {
    each->load(batches()[0], 0);
    each->step();
  }
  for (const Lengths& lengths : {Lengths{80, 80, 41}, Lengths{91}, Lengths{5, -1}}) {
    training.load(lengths, 1);
    training.step();
    EXPECT_TRUE(training.room.overflowed());
    expect_same_bits(training, same);
  }
  for (Training* each : {&training, &same}) {
    each->load(batches()[1], 1);
    each->step();
    EXPECT_FALSE(each->room.overflowed());
  }
  expect_same_bits(training, same);  // the count of steps, too, was left as it was
  testing::expect_error([&] { training.room.set_lengths(Lengths(7, 1)); },
                        "set_lengths: int64 of shape [7] (expected integers [B] for at most 6 components)");
}

TEST(CudaCapacity, WhatMustKnowTheLengthsIsRefused) {
  NEEDS_GPU();
  RaggedCapacity room({.components = 2, .rows = 6}, kGpu);
  const NestedTensor x(randn({6, 4}).to(kGpu), room.ragged());
  const std::string reason = "the lengths of the components lie on cuda:0 alone (expected a batch whose lengths the host knows)";
  EXPECT_EQ(to_string(x), "NestedTensor[2, ..6, 4] float32, room for 2 components of 6 rows in all");
  testing::expect_error([&] { deckle::sum(x, {1}); }, "sum: " + reason);
  testing::expect_error([&] { deckle::mean(x); }, "mean: " + reason);
  testing::expect_error([&] { x.lengths(); }, reason);
  testing::expect_error([&] { x[0]; }, reason);
  testing::expect_error([&] { softmax(x, 1); }, "softmax: " + reason);
  testing::expect_error([&] { batch_norm(x, {}, {}, {}, {}, 1e-5); }, "batch_norm: " + reason);
  testing::expect_error([&] { max(x); }, "max: " + reason);  // spare rows would be among them
  testing::expect_error([&] { min(x); }, "min: " + reason);
  testing::expect_error([&] { median(x); }, "median: " + reason);
  testing::expect_error([&] { mse_loss(x, x); }, "mse_loss: " + reason);
  testing::expect_error([] { RaggedCapacity({.components = 2, .rows = 6}, Device()); }, "room on cpu (expected a GPU");
  testing::expect_error([&] { x + NestedTensor::from_lengths(x.values(), {4, 2}); }, reason);
}

TEST(CudaCapacity, TwoRoomsAreNotMixed) {
  NEEDS_GPU();
  const Tensor values = randn({6, 4}).to(kGpu);
  RaggedCapacity room({.components = 2, .rows = 6}, kGpu), alike({.components = 2, .rows = 6}, kGpu),
      smaller({.components = 1, .rows = 6}, kGpu);
  for (RaggedCapacity* each : {&room, &alike, &smaller}) each->set_lengths(Lengths{6});
  const NestedTensor x(values, room.ragged());
  const std::string expected = " in another (expected both in one: NestedTensor(values, room.ragged()))";
  for (const RaggedCapacity* other : {&alike, &smaller}) {
    const NestedTensor y(values, other->ragged());
    testing::expect_error([&] { x + y; }, "add: self lies in one RaggedCapacity, other" + expected);
    testing::expect_error([&] { copy_(x, y); }, "copy_: self lies in one RaggedCapacity, ");
    testing::expect_error([&] { cat({x, y}, 2); }, "cat: tensor 0 lies in one RaggedCapacity, tensor 1" + expected);
    testing::expect_equal((x + NestedTensor(y.values(), room.ragged())).values(), 2 * values);
  }
}

TEST(CudaCapacity, IsOfOneDevice) {
  NEEDS_GPU();
  RaggedCapacity room({.components = 2, .rows = 6}, kGpu);
  room.set_lengths(Lengths{4, 2});
  const Tensor host = randn({6, 4});
  testing::expect_error([&] { NestedTensor(host, room.ragged()); },
                        "NestedTensor: values on cpu, their RaggedCapacity on cuda:0 (expected both on one device)");
  const NestedTensor x(host.to(kGpu), room.ragged());
  testing::expect_equal(x.to(kGpu).values(), host);
  testing::expect_error([&] { x.to(Device()); },
                        "to: the lengths lie in a RaggedCapacity on cuda:0 and stay there (expected "
                        "NestedTensor(x.values().to(device), ragged) with a room, or lengths, for cpu)");
  EXPECT_EQ(NestedTensor(x.values().to(Device()), Ragged::from_lengths(Lengths{4, 2}))[1].size(0), 2);
}

/// A loss of spare rows, which is log V of zeros, would be in every average that is made of it.
TEST(CudaCapacity, LossesOfEveryReductionAreRefused) {
  NEEDS_GPU();
  RaggedCapacity room({.components = 2, .rows = 6}, kGpu);
  room.set_lengths(Lengths{3, 1});
  const NestedTensor x(rand({6, 4}).to(kGpu), room.ragged()), places(rand({6, 4, 3}).to(kGpu), room.ragged());
  const NestedTensor classes(zeros({6}, DType::int64, kGpu), room.ragged());
  const NestedTensor classes_of_places(zeros({6, 3}, DType::int64, kGpu), room.ragged());
  for (const Reduction how : {Reduction::none, Reduction::mean, Reduction::sum, Reduction::token, Reduction::sequence}) {
    const std::pair<const char*, std::function<void()>> losses[] = {
        {"mse_loss", [&] { mse_loss(x, x, {.reduction = how}); }},
        {"l1_loss", [&] { l1_loss(x, x, {.reduction = how}); }},
        {"smooth_l1_loss", [&] { smooth_l1_loss(x, x, {.reduction = how}); }},
        {"huber_loss", [&] { huber_loss(x, x, {.reduction = how}); }},
        {"binary_cross_entropy", [&] { binary_cross_entropy(x, x, {.reduction = how}); }},
        {"binary_cross_entropy_with_logits", [&] { binary_cross_entropy_with_logits(x, x, {.reduction = how}); }},
        {"kl_div", [&] { kl_div(x, x, {.reduction = how}); }},
        {"nll_loss", [&] { nll_loss(x, classes, {.reduction = how}); }},
        {"cross_entropy", [&] { cross_entropy(x, classes, {.reduction = how}); }},
        {"cross_entropy", [&] { cross_entropy(x, softmax(x, -1), {.reduction = how}); }},
        {"cross_entropy", [&] { cross_entropy(places, classes_of_places, {.reduction = how}); }},
    };
    for (const auto& [name, loss] : losses) {
      SCOPED_TRACE(name + (" of reduction " + std::to_string(static_cast<int>(how))));
      testing::expect_error(loss, name + std::string(": the lengths of the components lie on cuda:0 alone"));
    }
  }
}

void expect_replays_to_be_steps(std::optional<DType> autocast) {
  Training eager(kModel, autocast), replayed(kModel, autocast);
  for (size_t i = 0; i < 2; ++i) {
    for (Training* each : {&eager, &replayed}) {
      each->load(batches()[i], static_cast<int64_t>(i));
      each->step();
    }
  }
  const cuda::Graph graph(kGpu, [&] { replayed.step(); });
  if (!cuda::fake()) {
    EXPECT_GT(graph.size(), 50);
  }
  expect_same_bits(replayed, eager);  // recording runs nothing
  synchronize(kGpu);
  const cuda::Counters before = cuda::counters(kGpu);
  for (size_t i = 0; i < 3 * batches().size(); ++i) {
    const Lengths lengths = i == 5 ? Lengths{80, 80, 80} : batches()[i % batches().size()];  // one that does not fit
    for (Training* each : {&eager, &replayed}) each->load(lengths, static_cast<int64_t>(i));
    if (i == 4) {
      for (Training* each : {&eager, &replayed}) each->optimizer.set_lr(1e-3);
    }
    eager.step();
    graph.replay();
    const double expected = eager.loss.item(), got = replayed.loss.item();
    EXPECT_TRUE(got == expected || (std::isnan(got) && std::isnan(expected))) << i << ": " << got << ", " << expected;
    EXPECT_EQ(replayed.norm.item(), eager.norm.item()) << "batch " << i;
    expect_same_bits(replayed, eager);
    EXPECT_EQ(replayed.room.overflowed(), i == 5);
  }
  EXPECT_LT(replayed.loss.item(), 3.4);
  if (!cuda::fake()) {
    EXPECT_EQ(cuda::counters(kGpu).blocks - before.blocks, 0);
  }
  EXPECT_EQ(replayed.optimizer.state().at("steps").to_vector(), eager.optimizer.state().at("steps").to_vector());
}

TEST(CudaGraph, ATrainingStepServesBatchesOfOtherLengths) {
  NEEDS_GPU();
  for (const std::optional<DType> autocast : kAutocasts) expect_replays_to_be_steps(autocast);
}

TEST(CudaGraph, RefusesWhatWouldNotBeReplayed) {
  NEEDS_GPU();
  const Tensor x = randn({8}).to(kGpu), on_host = randn({8});
  const auto recorded = [&](const std::function<void()>& work) { return testing::error_of([&] { cuda::Graph(kGpu, work); }); };
  EXPECT_NE(recorded([&] { deckle::sum(x).item(); }).find("which cannot have the host wait for the GPU"), std::string::npos);
  EXPECT_NE(recorded([&] { on_host.to(kGpu); }).find("which cannot have an upload"), std::string::npos);
  EXPECT_NE(recorded([&] { dropout(on_host, 0.5); }).find("which cannot have random numbers on the host"), std::string::npos);
  EXPECT_NE(recorded([&] { cuda::Graph(kGpu, [] {}); }).find("which cannot have another graph"), std::string::npos);
  const Tensor heads = zeros({1, 2, 1, 8}, DType::float32, kGpu);
  EXPECT_NE(recorded([&] { explain_attention(heads, heads, heads, {.dropout = 0.5}); }).find("cannot have an explanation"),
            std::string::npos);
  Generator generator(3);
  const std::string seed = recorded([&] { manual_seed(3); });
  EXPECT_NE(seed.find("manual_seed: a graph is being recorded, which cannot have a seed set"), std::string::npos) << seed;
  const std::string state = recorded([&] { generator.set_state(4, 0); });
  EXPECT_NE(state.find("which cannot have a generator's state set"), std::string::npos) << state;
  EXPECT_EQ(generator.seed(), 3u);
  const cuda::Graph other(kGpu, [] {});
  EXPECT_NE(recorded([&] { other.replay(); }).find("which cannot have a replay of another graph"), std::string::npos);
  EXPECT_EQ(deckle::sum(x * 0.0).item(), 0);  // nothing of it is left
}

TEST(CudaGraph, RefusesStepsThatTheHostCounts) {
  NEEDS_GPU();
  Tensor x = ones({3}, DType::float32, kGpu).requires_grad_();
  optim::AdamW optimizer({x});
  deckle::sum(x).backward();
  testing::expect_error([&] { cuda::Graph(kGpu, [&] { optimizer.step(); }); },
                        "each replay of which would take step 1 (expected AdamW::count_on_device before)");
  optimizer.count_on_device();
  const cuda::Graph graph(kGpu, [&] { optimizer.step(); });
  for (int i = 0; i < 2; ++i) graph.replay();
  EXPECT_EQ(optimizer.state().at("steps").to_vector(), std::vector<double>{2});
}

TEST(CudaGraph, StepsCountedOnTheDeviceRefuseAnotherSkipAtOnce) {
  NEEDS_GPU();
  const Tensor x = ones({3}, DType::float32, kGpu).requires_grad_();
  optim::AdamW optimizer({x});
  const auto refuses = [&](const Tensor& skip, const std::string& is) {
    testing::expect_error([&] { optimizer.count_on_device(skip); }, is + " (expected a bool of one element on cuda:0)");
  };
  refuses(zeros({1}, DType::bool_), "AdamW: skip is bool of shape [1] on cpu");
  refuses(zeros({1}, DType::float32, kGpu), "AdamW: skip is float32 of shape [1] on cuda:0");
  refuses(zeros({2}, DType::bool_, kGpu), "AdamW: skip is bool of shape [2] on cuda:0");
  deckle::sum(x).backward();
  optimizer.step();  // as the host counts: nothing was changed
  EXPECT_EQ(optimizer.state().at("steps").to_vector(), std::vector<double>{1});
  const NoGrad no_grad;
  const Tensor state = zeros({3}, DType::float32, kGpu), counter = zeros({2}, DType::float64, kGpu);
  const auto step = [&](const Tensor& of, const Tensor& skip) {
    foreach_adamw_counted_({x}, {x.grad()}, {state}, {state.clone()}, of, skip, 0.9, 0.99, 1e-8, 0);
  };
  const std::string two = "foreach_adamw_counted_: operands on ";
  testing::expect_error([&] { step(counter, zeros({1}, DType::bool_)); }, two);
  testing::expect_error([&] { step(zeros({2}, DType::float64), Tensor()); }, two);
}

TEST(CudaGraph, RefusesStepsWhoseRateTheHostHas) {
  NEEDS_GPU();
  Tensor x = ones({3}, DType::float32, kGpu).requires_grad_();
  optim::SGD optimizer({x}, {.lr = 0.5, .momentum = 0.5});
  deckle::sum(x).backward();
  testing::expect_error(
      [&] { cuda::Graph(kGpu, [&] { optimizer.step(); }); },
      "SGD: a graph is being recorded, each replay of which would take the rate of now, 0.5 (expected AdamW::count_on_device)");
  optimizer.step();  // as if nothing had been tried
  testing::expect_equal(x.detach(), full({3}, 0.5));
}

TEST(CudaGraph, RefusesAnEmptyFunctionAndReplaysOfOneThatWasMovedAway) {
  NEEDS_GPU();
  testing::expect_error([&] { cuda::Graph(kGpu, {}); }, "the function is empty (expected the work to record)");
  cuda::Graph graph(kGpu, [] {});
  const cuda::Graph other(std::move(graph));
  other.replay();
  testing::expect_error([&] { graph.replay(); }, "the graph was moved away (expected one that holds a recording)");
  EXPECT_EQ(graph.size(), 0);
}

TEST(CudaGraph, RandomNumbersGoOnWithEachReplay) {
  NEEDS_GPU();
  const Tensor x = randn({37, 9}).to(kGpu), chances = rand({50}).to(kGpu);
  Generator first(5), second(6), expected_first(5), expected_second(6);
  first.set_state(5, 11), expected_first.set_state(5, 11);
  const auto draw = [&](Generator& a, Generator& b) {
    const OnDevice there(kGpu);
    return std::vector<Tensor>{rand({33}, {.generator = &a}), dropout(x, 0.3, {.generator = &b}),
                               randn({21}, {.dtype = DType::float64, .generator = &a}), bernoulli(chances, {.generator = &a}),
                               randint(0, 1000, {17}, {.generator = &b})};
  };
  std::vector<Tensor> drawn;
  const cuda::Graph graph(kGpu, [&] { drawn = draw(first, second); });
  EXPECT_EQ(first.offset(), 11u);  // recording draws nothing
  for (int i = 0; i < 3; ++i) {
    if (i == 2) first.set_state(9, 1), expected_first.set_state(9, 1);
    graph.replay();
    const std::vector<Tensor> expected = draw(expected_first, expected_second);
    for (size_t n = 0; n < expected.size(); ++n) testing::expect_equal(drawn[n], expected[n]);
    EXPECT_EQ(first.offset(), expected_first.offset());
    EXPECT_EQ(second.offset(), expected_second.offset());
  }
  manual_seed(3);
  Tensor mask;
  const cuda::Graph own(kGpu, [&] { mask = dropout(x, 0.5); });
  for (int i = 0; i < 2; ++i) own.replay();
  const Tensor got = mask.clone();
  manual_seed(3);
  Tensor last;
  for (int i = 0; i < 2; ++i) last = dropout(x, 0.5);
  testing::expect_equal(got, last);
}

TEST(CudaGraph, ReplaysDrawFromTheDefaultGeneratorOfTheirThread) {
  NEEDS_GPU();
  const Tensor x = randn({37, 9}).to(kGpu);
  Tensor mask;
  std::unique_ptr<cuda::Graph> graph;
  std::thread([&] { graph = std::make_unique<cuda::Graph>(kGpu, [&] { mask = dropout(x, 0.5); }); }).join();
  manual_seed(3);
  graph->replay(), graph->replay();
  const Tensor got = mask.clone(), next = dropout(x, 0.5);
  manual_seed(3);
  Tensor expected;
  for (int i = 0; i < 2; ++i) expected = dropout(x, 0.5);
  testing::expect_equal(got, expected);
  testing::expect_equal(next, dropout(x, 0.5));
}

TEST(CudaGraph, DropoutOfAttentionGoesOnWithEachReplay) {
  NEEDS_GPU();
  struct Case {
    DType dtype;
    int64_t head_dim;
  };
  // On Hopper: its kernels, portable ones, general ones.
  for (const auto& [dtype, head_dim] : {Case{DType::bfloat16, 64}, {DType::float16, 24}, {DType::float32, 40}}) {
    RaggedCapacity room({.components = kComponents, .rows = kRows, .longest = kLongest}, kGpu);
    const auto operand = [&, dtype = dtype, head_dim = head_dim] {
      return randn({kRows, 2, head_dim}).to(dtype).to(kGpu).detach().requires_grad_();
    };
    const Tensor q = operand(), k = operand(), v = operand(), weights = randn({kRows, 2, head_dim}).to(dtype).to(kGpu);
    Generator drawn(5), expected_drawn(5);
    struct Got {
      Tensor out, q, k, v;
    };
    const auto step = [&](Generator& generator) {
      for (const Tensor& x : {q, k, v}) x.set_grad({});
      const auto in_room = [&](const Tensor& x) { return NestedTensor(x * 1.0, room.ragged()); };
      const NestedTensor y =
          attention(in_room(q), in_room(k), in_room(v), {.mask = masks::causal(), .dropout = 0.25, .generator = &generator});
      deckle::sum(y.values() * weights).backward();
      return Got{y.values().detach(), q.grad(), k.grad(), v.grad()};
    };
    room.set_lengths(batches()[0]);
    step(drawn), drawn.set_state(5, 0);
    Got got;
    const cuda::Graph graph(kGpu, [&] { got = step(drawn); });
    Tensor before;
    for (size_t i = 0; i < batches().size(); ++i) {
      room.set_lengths(batches()[i]);
      const Got expected = step(expected_drawn);
      graph.replay();
      for (const auto& [a, b] : {std::pair(got.out, expected.out), {got.q, expected.q}, {got.k, expected.k}, {got.v, expected.v}})
        testing::expect_equal(a, b);
      EXPECT_EQ(drawn.offset(), expected_drawn.offset());
      if (i == 1) room.set_lengths(batches()[0]), step(expected_drawn), graph.replay(), before = got.out.clone();
      if (i == 2) {  // the same batch again, under other numbers
        room.set_lengths(batches()[0]), step(expected_drawn), graph.replay();
        EXPECT_FALSE(all(eq(got.out, before)).item<bool>());
      }
    }
  }
}

TEST(CudaGraph, ResultsLieInItsOwnMemory) {
  NEEDS_GPU();
  const Tensor x = full({1 << 16}, 3, DType::float32, kGpu);
  Tensor y;
  {
    const cuda::Graph graph(kGpu, [&] { y = (x * 2.0 + 1.0) * 0.5; });  // the products between are freed in it
    std::vector<Tensor> others;
    for (int i = 0; i < 20; ++i) others.push_back(full({1 << 16}, i, DType::float32, kGpu));
    empty_cache(kGpu);
    for (int i = 0; i < 3; ++i) {
      fill_(x, i);
      graph.replay();
      testing::expect_equal(y, full({1 << 16}, i + 0.5, DType::float32, kGpu));
    }
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(all(others[static_cast<size_t>(i)] == i).item<bool>()) << i;
  }
  EXPECT_EQ(y[0].item(), 2.5);  // outlives the graph
}

TEST(CudaGraph, OperandsThatItFreesAreKept) {
  NEEDS_CUDA_KERNELS();
  const int64_t before = memory_stats(kGpu).in_use + memory_stats(kGpu).cached;
  {
    Tensor x = full({1 << 16}, 3, DType::float32, kGpu);
    const void* const block = address(x);
    const cuda::Graph graph(kGpu, [&] {
      x = x * 2.0;
      x = (x + 1.0) * 3.0;
    });
    std::vector<Tensor> others;
    for (int i = 0; i < 20; ++i) others.push_back(full({1 << 16}, i, DType::float32, kGpu));
    for (const Tensor& other : others) EXPECT_NE(address(other), block);
    empty_cache(kGpu);
    for (int i = 0; i < 3; ++i) {
      fill_(x, 0);
      graph.replay();
      testing::expect_equal(x, full({1 << 16}, 21, DType::float32));
    }
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(all(others[static_cast<size_t>(i)] == i).item<bool>()) << i;
  }
  empty_cache(kGpu);
  EXPECT_LE(memory_stats(kGpu).in_use + memory_stats(kGpu).cached, before);
}

TEST(CudaGraph, WhatAnotherMadeIsKeptWhenThatEnds) {
  NEEDS_CUDA_KERNELS();
  const int64_t before = memory_stats(kGpu).in_use + memory_stats(kGpu).cached;
  for (const bool first_ends_first : {true, false}) {
    const Tensor x = full({1 << 16}, 3, DType::float32, kGpu);
    Tensor y;
    auto first = std::make_unique<cuda::Graph>(kGpu, [&] { y = x * 2.0; });
    first->replay();
    const void* const block = address(y);
    auto second = std::make_unique<cuda::Graph>(kGpu, [&] { y = y + 1.0; });
    if (first_ends_first) first.reset();
    std::vector<Tensor> others;
    for (int i = 0; i < 20; ++i) others.push_back(full({1 << 16}, i, DType::float32, kGpu));
    for (const Tensor& other : others) EXPECT_NE(address(other), block);
    second->replay();
    testing::expect_equal(y, full({1 << 16}, 7, DType::float32));
    second.reset();
    for (int i = 0; i < 20; ++i) others.push_back(full({1 << 16}, i, DType::float32, kGpu));
    if (first) first->replay();  // writes its own block alone
    for (int i = 0; i < 40; ++i) EXPECT_TRUE(all(others[static_cast<size_t>(i)] == i % 20).item<bool>()) << i;
  }
  empty_cache(kGpu);
  EXPECT_LE(memory_stats(kGpu).in_use + memory_stats(kGpu).cached, before);
}

/// Of a decoder of `depth` layers, per step on batches of one shape, after warm-up.
cuda::Counters of_a_step(int64_t depth) {
  nn::DecoderOptions options = kModel;
  options.depth = depth;
  Training training(options);
  const auto step = [&](int64_t first) { training.step_on(NestedTensor::from_lengths(tokens(160, first), {50, 0, 70, 1, 39})); };
  for (int64_t i = 0; i < 4; ++i) step(i);
  synchronize(kGpu);
  const cuda::Counters before = cuda::counters(kGpu);
  step(5);
  const cuda::Counters after = cuda::counters(kGpu);
  return {after.blocks - before.blocks, after.waits - before.waits, after.uploads - before.uploads};
}

TEST(CudaCounters, ADecodersStepNeitherWaitsNorTakesMemoryAndUploadsItsBatchOnce) {
  NEEDS_GPU();
  const cuda::Counters two = of_a_step(2), four = of_a_step(4);
  EXPECT_EQ(two.waits, 0);
  EXPECT_EQ(two.blocks, 0);
  EXPECT_EQ(four.waits, 0);
  EXPECT_EQ(four.blocks, 0);
  EXPECT_EQ(four.uploads, two.uploads) << "what attention knows of a batch goes to the device once, not once a layer";
  EXPECT_LE(two.uploads, 4) << "tokens, targets, positions, offsets";
}

}  // namespace
}  // namespace deckle
