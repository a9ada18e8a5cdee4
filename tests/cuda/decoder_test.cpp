// The decoder on a GPU, in float32 and in bfloat16 with float32 parameters, held to the CPU's.
#include "deckle/core/cuda/counters.h"
#include "deckle/core/kept.h"
#include "deckle/deckle.h"
#include "tests/cuda/gpu.h"
#include "tests/support/device_tolerances.h"
#include "tests/support/expect.h"

namespace deckle {
namespace {

constexpr nn::DecoderOptions kModel{.vocab = 31, .d_model = 128, .depth = 2, .heads = 2, .kv_heads = 1, .hidden = 160, .seed = 3};

NestedTensor chain(int64_t number) {
  const std::vector<int64_t> lengths{50, 0, 70, 1, 39};
  const Tensor values = empty({160}, DType::int64);
  int64_t token = number % 31;
  for (int64_t i = 0; i < 160; ++i) {
    values.data<int64_t>()[i] = token;
    token = (token * 7 + (i % 3 == 0 ? 1 : 4)) % 31;
  }
  return NestedTensor::from_lengths(values, lengths);
}

struct Trained {
  std::vector<double> losses;
  std::map<std::string, Tensor> model;
  optim::State optimizer;
};

/// Steps first .. last - 1, from a state or from the start.
Trained train(Device device, int64_t first, int64_t last, const Trained* from = nullptr,
              std::optional<DType> autocast = DType::bfloat16) {
  nn::DecoderLM model(kModel);
  model.to(device);
  optim::AdamW optimizer(model.parameters(), {.lr = 3e-3});
  if (from != nullptr) {
    model.load_state(from->model);
    optimizer.load_state(from->optimizer);
  }
  Trained run;
  for (int64_t step = first; step < last; ++step) {
    Tensor loss;
    {
      const Autocast scope(autocast);
      loss = model.loss(chain(step % 6));
    }
    loss.backward();
    run.losses.push_back(loss.item());
    optim::clip_gradient_norm(model.parameters(), 1.0);
    optimizer.step();
    optimizer.zero_grad();
  }
  for (const auto& [name, tensor] : model.state()) run.model[name] = clone(tensor);
  for (const auto& [name, tensor] : optimizer.state()) run.optimizer[name] = clone(tensor);
  return run;
}

TEST(CudaDecoder, TokensOnTheDeviceAreNotReadByTheHost) {
  NEEDS_GPU();
  nn::DecoderLM model(kModel);
  model.to(kGpu);
  const NestedTensor host = chain(3), there = host.to(kGpu);
  const double expected = model.loss(host).item();
  EXPECT_EQ(model.loss(there).item(), expected);
  const int64_t waits = cuda::counters(kGpu).waits;
  const Tensor loss = model.loss(there);
  EXPECT_EQ(cuda::counters(kGpu).waits, waits);
  EXPECT_EQ(loss.item(), expected);
}

TEST(CudaDecoder, AWrongTokenOfTheHostIsAnErrorAtOnce) {
  NEEDS_GPU();
  nn::DecoderLM model(kModel);
  model.to(kGpu);
  nn::KeyValueCache cache = model.make_cache();
  for (int b = 0; b < 2; ++b) cache.add();
  const auto tokens = [](int64_t first, int64_t last) {
    const Tensor values = full({5}, first, DType::int64);
    values.data<int64_t>()[4] = last;
    return NestedTensor::from_lengths(values, {2, 3});
  };
  (void)model.next_logits(tokens(3, 30), cache);
  const auto refused = [&](int64_t token) { return fmt::format("have token {}, which is out of range (expected 0..30)", token); };
  for (const int64_t token : {-1, 31}) {
    testing::expect_error([&] { (void)model.next_logits(tokens(3, token), cache); }, refused(token));
    testing::expect_error([&] { (void)model.loss(tokens(token, 3)); }, refused(token));
  }
  EXPECT_EQ(cache.lengths(), (std::vector<int64_t>{2, 3}));
}

// Rows of many sequences go to the cache in lists of up to 48.
TEST(CudaDecoder, ManyTextsAreContinuedAsOnTheCpu) {
  NEEDS_GPU();
  nn::DecoderLM model(kModel), there(kModel);
  there.to(kGpu);
  nn::KeyValueCache caches[] = {model.make_cache(), there.make_cache()};
  const std::vector<int64_t> firsts(60, 2), ones(60, 1);
  for (nn::KeyValueCache& cache : caches) {
    for (int b = 0; b < 60; ++b) cache.add();
  }
  for (const std::vector<int64_t>& lengths : {firsts, ones, ones}) {
    const NestedTensor tokens = NestedTensor::from_lengths(randint(0, 31, {60 * lengths[0]}), lengths);
    testing::expect_close(there.next_logits(tokens, caches[1]), model.next_logits(tokens, caches[0]), 1e-4, 1e-4);
  }
}

TEST(CudaDecoder, OffsetsAndTilesOfAShapeGoToTheDeviceOnce) {
  NEEDS_GPU();
  nn::DecoderLM model(kModel);
  model.to(kGpu);
  const NestedTensor batch = chain(3);
  const auto uploads_of = [&](const NestedTensor& tokens) {
    const int64_t before = cuda::counters(kGpu).uploads;
    model.loss(tokens).backward();
    return cuda::counters(kGpu).uploads - before;
  };
  uploads_of(batch);
  EXPECT_EQ(uploads_of(batch), 2) << "tokens, targets";
  const NestedTensor others(chain(4).values(), batch.ragged());
  EXPECT_EQ(uploads_of(others), 2);
  bool made = false;  // a shape of its own in each call has offsets of its own
  kept_shape(*batch.ragged(), "without the last row", {}, [&] {
    made = true;
    return Ragged::from_lengths({});
  });
  EXPECT_FALSE(made);
}

TEST(CudaDecoder, LearnsInBfloat16AsOnTheCpu) {
  NEEDS_GPU();
  const Trained expected = train({}, 0, 40), got = train(kGpu, 0, 40);
  // Later the texts are known by heart, and the losses small and chaotic.
  for (size_t step = 0; step < 20; ++step)
    EXPECT_NEAR(got.losses[step] / expected.losses[step], 1,
                (step < 5 ? testing::tolerances::kFirstSteps : testing::tolerances::kLaterSteps).bfloat16)
        << "step " << step;
  EXPECT_LT(got.losses.back(), 0.8 * got.losses.front());
}

TEST(CudaDecoder, TheLossCurveInFloat32IsTheCpus) {
  NEEDS_GPU();
  const Trained expected = train({}, 0, 20, nullptr, {}), got = train(kGpu, 0, 20, nullptr, {});
  for (size_t step = 0; step < 20; ++step)
    EXPECT_NEAR(got.losses[step], expected.losses[step], testing::tolerances::kCurve.float32) << "step " << step;
}

TEST(CudaDecoder, RunsHaveTheSameBitsAndSoDoResumedOnes) {
  NEEDS_GPU();
  const Trained whole = train(kGpu, 0, 12), again = train(kGpu, 0, 12), half = train(kGpu, 0, 6),
                rest = train(kGpu, 6, 12, &half);
  EXPECT_EQ(again.losses, whole.losses);
  EXPECT_EQ(rest.losses, std::vector<double>(whole.losses.begin() + 6, whole.losses.end()));
  for (const auto& [name, tensor] : whole.model) {
    EXPECT_EQ(rest.model.at(name).device(), kGpu);
    EXPECT_EQ(rest.model.at(name).to_vector(), tensor.to_vector()) << name;
  }
}

TEST(CudaDecoder, GoesOnFromWhatTheOtherDeviceSaved) {
  NEEDS_GPU();
  const Trained cpu = train({}, 0, 6), gpu = train(kGpu, 0, 6);
  const Trained there = train(kGpu, 6, 8, &cpu), here = train({}, 6, 8, &gpu), expected = train({}, 6, 8, &cpu);
  for (size_t step = 0; step < 2; ++step) {
    EXPECT_NEAR(there.losses[step] / expected.losses[step], 1, testing::tolerances::kFromTheCpu.bfloat16);
    EXPECT_NEAR(here.losses[step] / expected.losses[step], 1, testing::tolerances::kFromAGpu.bfloat16);
  }
}

TEST(CudaDecoder, SamplesTheCpusLikeliestTokens) {
  NEEDS_GPU();
  const Trained trained = train({}, 0, 60);
  const auto tokens = [&](Device device) {
    nn::DecoderLM model(kModel);
    model.load_state(trained.model);
    model.to(DType::bfloat16);
    model.to(device);
    nn::SequenceSampler sampler(model, {.temperature = 0});
    const std::vector<int64_t> prompts[] = {{0, 1, 11}, {5}};
    for (const std::vector<int64_t>& prompt : prompts) sampler.add(prompt, 7);
    std::vector<std::vector<int64_t>> drawn;
    for (int i = 0; i < 40; ++i) drawn.push_back(sampler.next());
    sampler.remove(0);
    drawn.push_back(sampler.next());
    return drawn;
  };
  const auto expected = tokens({}), got = tokens(kGpu);
  // Ties within rounding may fall otherwise, and then the texts part: the first tokens do not.
  EXPECT_EQ(got[0], expected[0]);
  EXPECT_EQ(got[1], expected[1]);
  EXPECT_EQ(got.back().size(), 1u);
}

}  // namespace
}  // namespace deckle
