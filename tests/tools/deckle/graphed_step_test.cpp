// A training step as one graph, held to calls op by op: on a GPU, or a fake device.
#include "tools/deckle/graphed_step.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "deckle/autograd/grad_mode.h"
#include "deckle/core/from_data.h"
#include "deckle/io/checkpoint.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/optim/clip.h"
#include "tests/cuda/gpu.h"
#include "tests/support/device_tolerances.h"
#include "tests/support/expect.h"
#include "tests/support/temporary_folder.h"
#include "tools/deckle/loss_curve.h"
#include "tools/deckle/trainer.h"

namespace deckle::cli {
namespace {

constexpr int64_t kTokens = 60, kLongest = 80;

/// Texts of a language that can be learned, as the trainer has them: [texts, length], 2 tokens or more each.
NestedTensor batch(const std::vector<int64_t>& lengths, int64_t first) {
  std::vector<int64_t> tokens;
  int64_t token = first % 31;
  for (const int64_t length : lengths) {
    for (int64_t i = 0; i < length; ++i) {
      tokens.push_back(token);
      token = (token * 7 + (tokens.size() % 3 == 0 ? 1 : 4)) % 31;
    }
  }
  return NestedTensor::from_lengths(tensor(tokens), lengths);
}

/// The batches of step `i`, `count` of them: of up to 16 texts, in step 4 of more.
std::vector<NestedTensor> batches_of(int64_t i, int64_t count) {
  static const std::vector<std::vector<int64_t>> all = {{20, 2, 31}, {80}, {10, 11, 12, 13}, {2}, {62}};
  std::vector<NestedTensor> batches;
  for (int64_t n = 0; n < count; ++n) {
    const auto which = static_cast<size_t>(i + 2 * n) % all.size();
    batches.push_back(batch(i == 4 && n == 0 ? std::vector<int64_t>(20, 3) : all[which], i + n));
  }
  return batches;
}

struct Training {
  explicit Training(int64_t count = 1, int64_t texts = 0)
      : model(placed()), optimizer(model.parameters(), {}), options{count, kTokens, kLongest, texts, 1.0, {}} {}
  static nn::DecoderLM placed() {
    nn::DecoderLM model({.vocab = 31, .d_model = 32, .depth = 2, .heads = 2, .seed = 3});
    model.to(kGpu);
    return model;
  }
  /// A step by a call for each op, as the trainer takes it where there is no graph.
  StepResult call(const std::vector<NestedTensor>& batches, double lr) {
    int64_t tokens = 0;
    for (const NestedTensor& one : batches) tokens += nn::predicted_tokens(one);
    StepResult result;
    for (const NestedTensor& one : batches) {
      const Tensor loss = model.loss(one) * (static_cast<double>(nn::predicted_tokens(one)) / static_cast<double>(tokens));
      loss.backward();
      result.loss += loss.item();
    }
    result.norm = optim::clip_gradient_norm(model.parameters(), options.clip);
    optimizer.set_lr(lr);
    optimizer.step();
    optimizer.zero_grad();
    return result;
  }

  nn::DecoderLM model;
  optim::AdamW optimizer;
  GraphedStep::Options options;
};

double lr_of(int64_t i) { return 1e-3 * static_cast<double>(1 + i % 3); }

void expect_same_bits(const Training& a, const Training& b) {
  const auto state = a.model.state(), other = b.model.state();
  for (const auto& [name, tensor] : state) EXPECT_EQ(tensor.to_vector(), other.at(name).to_vector()) << name;
}

TEST(GraphedStep, LossesAreThoseOfACallForEachOp) {
  NEEDS_GPU();
  for (const int64_t count : {1, 3}) {
    Training graphed(count), called(count);
    GraphedStep step(graphed.model, graphed.optimizer, graphed.options);
    for (int64_t i = 0; i < 10; ++i) {
      const StepResult got = step.run(batches_of(i, count), lr_of(i)), expected = called.call(batches_of(i, count), lr_of(i));
      EXPECT_NEAR(got.loss / expected.loss, 1, testing::tolerances::kRoom.float32) << count << " batches, step " << i;
      EXPECT_NEAR(got.norm / expected.norm, 1, testing::tolerances::kRoomNorm.float32) << count << " batches, step " << i;
      EXPECT_EQ(step.texts(), i < 4 ? 16 : 32);
    }
    EXPECT_EQ(step.steps(), 10);
  }
}

TEST(GraphedStep, AReplayHasTheBitsOfTheFirstStepInARoomAndSoHasAResumedRun) {
  NEEDS_GPU();
  Training whole, parts;
  GraphedStep step(whole.model, whole.optimizer, whole.options);
  std::optional<GraphedStep> part;
  for (int64_t i = 0; i < 8; ++i) {
    if (i != 3) {  // each step without a graph, but the fourth
      const int64_t texts = part ? part->texts() : 0;
      Training resumed(1, texts);
      resumed.model.load_state(parts.model.state());
      resumed.optimizer.load_state(parts.optimizer.state());
      part.reset();
      parts.model.load_state(resumed.model.state());
      parts.optimizer.load_state(resumed.optimizer.state());
      parts.options.texts = texts;
      part.emplace(parts.model, parts.optimizer, parts.options);
    }
    const StepResult expected = part->run(batches_of(i, 1), lr_of(i)), got = step.run(batches_of(i, 1), lr_of(i));
    EXPECT_EQ(got.loss, expected.loss) << "step " << i;
    EXPECT_EQ(got.norm, expected.norm) << "step " << i;
    expect_same_bits(whole, parts);
  }
}

TEST(GraphedStep, WhatIsNotFiniteChangesNothing) {
  NEEDS_GPU();
  for (const int64_t steps_before : {0, 3}) {
    Training training, same;
    GraphedStep step(training.model, training.optimizer, training.options), other(same.model, same.optimizer, same.options);
    for (int64_t i = 0; i < steps_before; ++i) {
      step.run(batches_of(i, 1), lr_of(i));
      other.run(batches_of(i, 1), lr_of(i));
    }
    for (const Training* each : {&training, &same}) {
      const NoGrad no_grad;
      fill_(select(each->model.norm.weight, 0, 5), std::numeric_limits<double>::quiet_NaN());
    }
    const StepResult result = step.run(batches_of(3, 1), lr_of(3));
    EXPECT_FALSE(result.finite());
    for (const auto& [name, tensor] : training.model.state())
      EXPECT_THAT(tensor.to_vector(),
                  ::testing::Pointwise(::testing::NanSensitiveDoubleEq(), same.model.state().at(name).to_vector()))
          << name;
    EXPECT_EQ(training.optimizer.state().at("steps").to_vector(), same.optimizer.state().at("steps").to_vector());
  }
}

/// The losses of a run of the command line's trainer, in bits per byte.
std::vector<LossCurve::Point> curve_of(const TemporaryFolder& place, const std::string& name, bool graph, int64_t accumulate) {
  std::string texts;
  for (int i = 0; i < 60; ++i)
    texts += std::string(static_cast<size_t>(1 + i * 7 % 40), static_cast<char>('a' + i % 20)) + "bc\n";
  put_file(place / "texts.txt", texts);
  TrainOptions options;
  options.text = {(place / "texts.txt").string()};
  options.validation = 0.2;
  options.steps = 12;
  options.tokens = 200;
  options.accumulate = accumulate;
  options.graph = graph;
  options.model.d_model = 32;
  options.model.depth = 1;
  options.model.heads = 2;
  Trainer(options, {.folder = (place / name).string()}, kGpu).run();
  return LossCurve::load(io::load_checkpoint(io::latest_checkpoint(place / name))).training;
}

TEST(TrainerWithGraphs, TheLossCurveIsThatOfCallsOpByOp) {
  NEEDS_GPU();
  const TemporaryFolder place;
  for (const int64_t accumulate : {1, 2, 17}) {  // 17: more than a graph serves, which the trainer says
    const auto name = [&](const char* kind) { return std::string(kind) + std::to_string(accumulate); };
    const auto expected = curve_of(place, name("called"), false, accumulate);
    ::testing::internal::CaptureStdout();
    const auto got = curve_of(place, name("graphed"), true, accumulate);
    const std::string said = ::testing::internal::GetCapturedStdout();
    EXPECT_EQ(said.find("no graph: 17 batches a step (a graph serves up to 16)") != std::string::npos, accumulate == 17) << said;
    EXPECT_EQ(io::load_checkpoint(io::latest_checkpoint(place / name("graphed"))).integer("graph.texts") > 0, accumulate != 17);
    ASSERT_EQ(got.size(), 12u);
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i].bits / expected[i].bits, 1, testing::tolerances::kRoom.float32) << "step " << i + 1;
    EXPECT_LT(got.back().bits, 0.9 * got.front().bits);
  }
}

}  // namespace
}  // namespace deckle::cli
