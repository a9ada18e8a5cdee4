#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/pointwise.h"
#include "tests/support/expect.h"
#include "tests/support/temporary_folder.h"
#include "tools/deckle/loss_curve.h"
#include "tools/deckle/numbers.h"
#include "tools/deckle/pace.h"
#include "tools/deckle/progress.h"
#include "tools/deckle/run_folder.h"
#include "tools/deckle/sampling.h"
#include "tools/deckle/train_options.h"
#include "tools/deckle/trainer.h"

namespace deckle::cli {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

TEST(Numbers, ReadWell) {
  EXPECT_EQ(bytes_text(2'530'000), "2.53 MB");
  EXPECT_EQ(bytes_text(871), "871 B");
  EXPECT_EQ(bytes_text(999'600), "1.00 MB");
  EXPECT_EQ(bytes_text(14'040), "14.0 kB");
  EXPECT_EQ(short_count(3'300'000), "3.30 M");
  EXPECT_EQ(duration_text(113), "1:53");
  EXPECT_EQ(duration_text(3723), "1:02:03");
  EXPECT_EQ(duration_text(-1), "0:00");
  EXPECT_EQ(count_text(1, "text"), "1 text");
  EXPECT_EQ(count_text(15'218, "text"), "15,218 texts");
  EXPECT_GT(memory_in_use(), 1 << 20);
  EXPECT_GE(peak_memory(), 1 << 20);
}

TEST(Progress, IsOneLine) {
  const Progress progress{.share = 0.625,
                          .step = 149,
                          .loss = 1.94,
                          .validation = 2.86,
                          .tokens_per_second = 6512.3,
                          .memory = 1'100'000'000,
                          .seconds_left = 113};
  EXPECT_EQ(progress_text(progress),
            " 62 %|###########-------|  step 149  loss 1.94 (2.80 bits/byte)  val 2.86  6,512 tok/s  1.10 GB  1:53 left");
}

TEST(Pace, BySteps) {
  Pace pace = Pace::by_steps(4);
  for (int step = 0; step < 4; ++step) {
    EXPECT_FALSE(pace.done());
    EXPECT_DOUBLE_EQ(pace.progress(), step / 4.0);
    pace.step_done(100.0 * step);
  }
  EXPECT_TRUE(pace.done());
}

TEST(Pace, ByTimeEndsOnTimeAtAnySpeed) {
  for (const double slow : {0.5, 1.0, 3.0}) {
    Pace pace = Pace::by_time(100);
    double before = 0;
    while (!pace.done()) {
      // The speed changes half-way, and there are pauses.
      pace.step_done(pace.elapsed() < 50 ? 0.7 : 0.7 * slow);
      if (pace.steps_done() % 20 == 0) pace.pause(1.5);
      EXPECT_GT(pace.progress(), before);
      before = pace.progress();
    }
    EXPECT_NEAR(pace.elapsed(), 100, 4) << slow;
  }
}

TEST(Pace, ByTimeProgressIsSteady) {
  Pace pace = Pace::by_time(300);
  while (pace.elapsed() < 150) pace.step_done(0.5 + 0.1 * std::sin(pace.elapsed()));
  EXPECT_NEAR(pace.progress(), 0.5, 0.02);
}

TEST(Pace, GoesOnFromACheckpoint) {
  Pace pace = Pace::by_time(100);
  for (int step = 0; step < 37; ++step) pace.step_done(0.3);
  io::Checkpoint checkpoint;
  pace.save(checkpoint);
  Pace resumed = Pace::load(checkpoint);
  for (int step = 0; step < 100; ++step) {
    EXPECT_EQ(resumed.progress(), pace.progress());
    resumed.step_done(0.3);
    pace.step_done(0.3);
  }
}

TEST(TrainOptions, ComeBackFromACheckpoint) {
  TrainOptions options;
  options.text = {"/a", "/b c"};
  options.reading = {.format = io::TextFormat::jsonl, .field = "body", .max_length = 7};
  options.lr = 0.1 + 0.2;
  options.seed = UINT64_MAX;
  options.model.d_model = 48;
  io::Checkpoint checkpoint;
  options.save(checkpoint);
  const TrainOptions loaded = TrainOptions::load(checkpoint);
  io::Checkpoint again;
  loaded.save(again);
  EXPECT_EQ(again.metadata, checkpoint.metadata);
  EXPECT_EQ(loaded.text, options.text);
  EXPECT_EQ(loaded.lr, options.lr);
  EXPECT_EQ(loaded.seed, options.seed);
  EXPECT_EQ(loaded.reading.field, "body");
}

TEST(LossCurve, ComesBackFromACheckpointAndDraws) {
  LossCurve curve;
  for (int step = 1; step <= 500; ++step) curve.training.push_back({step, 2.5 + 5.5 / step});
  curve.validation = {{250, 2.6}, {500, 2.52}};
  io::Checkpoint checkpoint;
  curve.save(checkpoint);
  const LossCurve loaded = LossCurve::load(checkpoint);
  ASSERT_EQ(loaded.training.size(), 500u);
  EXPECT_EQ(loaded.training[99].step, 100);
  EXPECT_EQ(loaded.training[99].bits, curve.training[99].bits);

  const std::string picture = svg(loaded, "a < b & c");
  EXPECT_THAT(picture, HasSubstr("a &lt; b &amp; c"));
  EXPECT_THAT(picture, HasSubstr("<polyline"));
  const std::string plot = terminal_plot(loaded);
  EXPECT_THAT(plot, HasSubstr("o"));
  EXPECT_THAT(plot, HasSubstr("step 500"));
}

TEST(LossCurve, OnePointOrNoneIsFine) {
  EXPECT_THAT(svg({}, "t"), HasSubstr("</svg>"));
  EXPECT_FALSE(terminal_plot({}).empty());
  EXPECT_THAT(svg({.training = {{1, 3.0}}}, "t"), HasSubstr("</svg>"));
}

TEST(LossCurve, ThinningKeepsTheMean) {
  std::vector<LossCurve::Point> points;
  for (int i = 0; i < 1000; ++i) points.push_back({i, static_cast<double>(i)});
  const auto thin = thin_out(points, 10);
  ASSERT_EQ(thin.size(), 10u);
  EXPECT_DOUBLE_EQ(thin[0].bits, 49.5);
  EXPECT_DOUBLE_EQ(thin[9].bits, 949.5);
}

TEST(RunFolder, IsHeldUntilItsRunEnds) {
  const TemporaryFolder place;
  const std::string wanted = (place / "run").string();
  {
    const RunFolder run = RunFolder::create({.folder = wanted}, "x.txt");
    EXPECT_THAT(error_of([&] { RunFolder::create({.folder = wanted}, "x.txt"); }), HasSubstr("another run is using the folder"));
    EXPECT_THAT(error_of([&] { RunFolder::create({.folder = wanted, .overwrite = true}, "x.txt"); }),
                HasSubstr("another run is using"));
    EXPECT_THAT(error_of([&] { RunFolder::open(wanted); }), HasSubstr("another run is using"));
    put_file(run.path() / "loss.svg", "a curve");
  }
  EXPECT_EQ(RunFolder::open(wanted).path(), wanted);
  EXPECT_THAT(error_of([&] { RunFolder::create({.folder = wanted}, "x.txt"); }), HasSubstr("there is a run already"));
  EXPECT_EQ(RunFolder::create({.folder = wanted, .overwrite = true}, "x.txt").path(), wanted);
  put_file(place / "file", "");
  EXPECT_THAT(error_of([&] { RunFolder::create({.folder = (place / "file").string()}, "x.txt"); }),
              HasSubstr("a file is in its place"));
}

TEST(RunFolder, RunsAtTheSameTimeGetNamesOfTheirOwn) {
  const TemporaryFolder place;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(place.path());
  {
    const RunFolder first = RunFolder::create({}, "some/texts.txt");
    const RunFolder second = RunFolder::create({}, "some/texts.txt");
    EXPECT_EQ(first.path(), "runs/texts");
    EXPECT_EQ(second.path(), "runs/texts-2");
    EXPECT_EQ(RunFolder::create({}, "other/").path(), "runs/other");
    put_file(second.path() / "loss.svg", "a curve");
  }
  EXPECT_EQ(RunFolder::create({}, "some/texts.txt").path(), "runs/texts");  // nothing was written there
  put_file("runs/texts/loss.svg", "a curve");
  EXPECT_EQ(RunFolder::create({}, "some/texts.txt").path(), "runs/texts-3");
  std::filesystem::current_path(before);
}

/// Trains a few steps in `folder`; the checkpoint is that of the last.
std::filesystem::path train_a_little(const TemporaryFolder& place, const std::string& folder) {
  put_file(place / "texts.txt", "one text\nanother text\na third one\nand so on\n");
  TrainOptions options;
  options.text = {(place / "texts.txt").string()};
  options.validation = 0.3;
  options.steps = 3;
  options.model.d_model = 16;
  options.model.depth = 1;
  options.model.heads = 2;
  Trainer(options, {.folder = (place / folder).string()}, Device()).run();
  return place / folder;
}

/// The run's last checkpoint as if one more step were to come, with `change` made to its tensors.
template <typename Change>
void reopen(const std::filesystem::path& folder, Change&& change) {
  const std::filesystem::path path = io::latest_checkpoint(folder);
  io::Checkpoint checkpoint = io::load_checkpoint(path);
  checkpoint.set("pace.steps", int64_t{5});
  checkpoint.set("pace.progress", 0.6);
  checkpoint.set("options.save_minutes", 0.0);
  change(checkpoint.tensors);
  io::save_checkpoint(checkpoint, folder);
}

TEST(Trainer, AGradientThatIsNotFiniteNeverReachesTheParameters) {
  const TemporaryFolder place;
  const std::filesystem::path folder = train_a_little(place, "run");
  // The logits are huge but finite, and so is the loss; where the norm divides by little, its derivative is no more so.
  reopen(folder, [](io::TensorMap& tensors) {
    for (auto& [name, tensor] : tensors) {
      if (name == "model.embedding.weight") tensor = mul(tensor, 1e-9);
      if (name.starts_with("model.blocks.") && tensor.dim() == 2) tensor = zeros_like(tensor);
      if (name == "model.norm.weight") tensor = mul(tensor, 1e6);
      if (name == "model.head.weight") tensor = mul(tensor, 1e37);
    }
  });
  const std::string message = error_of([&] { Trainer(folder, Device()).run(); });
  EXPECT_THAT(message, HasSubstr("at step 4 the loss is "));
  EXPECT_THAT(message, HasSubstr("gradient's norm"));
  EXPECT_THAT(message, Not(HasSubstr("the loss is nan")));
  EXPECT_THAT(message, Not(HasSubstr("the loss is inf")));
  EXPECT_EQ(io::latest_checkpoint(folder).filename(), "step-3.safetensors");
}

TEST(Trainer, OnlyTheNewestCheckpointOfAFolderGoesOnThere) {
  const TemporaryFolder place;
  const std::filesystem::path folder = train_a_little(place, "run");
  reopen(folder, [](io::TensorMap&) {});
  io::Checkpoint later = io::load_checkpoint(folder / "step-3.safetensors");
  later.step = 900;
  io::save_checkpoint(later, folder);
  EXPECT_THAT(error_of([&] { Trainer(folder / "step-3.safetensors", Device()); }),
              HasSubstr("has another checkpoint, step-900.safetensors: copy this one"));
  std::filesystem::create_directory(place / "branch");
  std::filesystem::copy_file(folder / "step-3.safetensors", place / "branch/step-3.safetensors");
  Trainer(place / "branch/step-3.safetensors", Device()).run();
  EXPECT_EQ(io::latest_checkpoint(place / "branch").filename(), "step-5.safetensors");
  EXPECT_EQ(io::latest_checkpoint(folder).filename(), "step-900.safetensors");
}

TEST(KnownWords, CountsRunsOfLetters) {
  EXPECT_DOUBLE_EQ(known_words("The cat, the dog's übel!", "the CAT sat; übel"), 4.0 / 6);
  EXPECT_DOUBLE_EQ(known_words("123 !", "x"), 1);
}

}  // namespace
}  // namespace deckle::cli
