#include "deckle/io/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "deckle/core/tensor_impl.h"
#include "tests/support/expect.h"
#include "tests/support/temporary_folder.h"

namespace deckle::io {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

Checkpoint example(int64_t step) {
  Checkpoint checkpoint;
  checkpoint.step = step;
  const Tensor tensor = empty({3});
  for (int i = 0; i < 3; ++i) tensor.data<float>()[i] = static_cast<float>(i) + 0.1f;
  checkpoint.tensors["w"] = tensor;
  checkpoint.set("count", int64_t{-7});
  checkpoint.set("seed", std::numeric_limits<uint64_t>::max());
  checkpoint.set("rate", 0.1);
  checkpoint.set("tiny", std::numeric_limits<double>::denorm_min());
  checkpoint.set("name", std::string("a \"quoted\" text\n"));
  return checkpoint;
}

TEST(Checkpoint, NumbersAndTextsComeBackExactly) {
  const TemporaryFolder folder;
  const Checkpoint loaded = load_checkpoint(save_checkpoint(example(12), folder.path()));
  EXPECT_EQ(loaded.step, 12);
  EXPECT_EQ(loaded.integer("count"), -7);
  EXPECT_EQ(loaded.natural("seed"), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(loaded.real("rate"), 0.1);
  EXPECT_EQ(loaded.real("tiny"), std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(loaded.text("name"), "a \"quoted\" text\n");
  EXPECT_EQ(loaded.metadata, example(12).metadata);
  EXPECT_EQ(loaded.tensors.at("w").to_vector<float>(), example(12).tensors.at("w").to_vector<float>());
}

TEST(Checkpoint, TheNewestAreKept) {
  const TemporaryFolder folder;
  put_file(folder / "loss.svg", "not a checkpoint");
  for (const int64_t step : {5, 90, 100}) save_checkpoint(example(step), folder.path(), 2);
  EXPECT_EQ(latest_checkpoint(folder.path()), folder / "step-100.safetensors");
  EXPECT_FALSE(std::filesystem::exists(folder / "step-5.safetensors"));
  EXPECT_TRUE(std::filesystem::exists(folder / "step-90.safetensors"));
  EXPECT_TRUE(std::filesystem::exists(folder / "loss.svg"));
  remove_checkpoints(folder.path());
  EXPECT_EQ(folder.entries(), 1);
}

TEST(Checkpoint, LaterStepsAndOtherFilesStay) {
  const TemporaryFolder folder;
  put_file(folder / "step-2.safetensors", "somebody's notes");
  save({}, folder / "step-3.safetensors");
  for (const int64_t step : {700, 800, 5, 6, 7}) save_checkpoint(example(step), folder.path(), 2);
  EXPECT_TRUE(std::filesystem::exists(folder / "step-700.safetensors"));
  EXPECT_TRUE(std::filesystem::exists(folder / "step-800.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(folder / "step-5.safetensors"));
  EXPECT_TRUE(std::filesystem::exists(folder / "step-6.safetensors"));
  EXPECT_EQ(list_checkpoints(folder.path()).front(), folder / "step-800.safetensors");
  remove_checkpoints(folder.path());
  EXPECT_EQ(folder.entries(), 2);
  EXPECT_EQ(get_file(folder / "step-2.safetensors"), "somebody's notes");
}

TEST(Checkpoint, OtherAndTruncatedFilesOfLaterStepsHideNone) {
  const TemporaryFolder folder;
  const std::string whole = get_file(save_checkpoint(example(900), folder.path()));
  put_file(folder / "step-900.safetensors", whole.substr(0, whole.size() - 1));
  put_file(folder / "step-800.safetensors", "somebody's notes");
  EXPECT_TRUE(list_checkpoints(folder.path()).empty());
  EXPECT_THAT(error_of([&] { latest_checkpoint(folder.path()); }), HasSubstr("has no checkpoint"));
  save_checkpoint(example(3), folder.path());
  EXPECT_EQ(latest_checkpoint(folder.path()), folder / "step-3.safetensors");
  EXPECT_EQ(list_checkpoints(folder.path()).size(), 1u);
}

TEST(Checkpoint, OneThatCannotBeOpenedIsNotPassedOver) {
  const TemporaryFolder folder;
  save_checkpoint(example(3), folder.path());
  const int free = ::dup(STDERR_FILENO);
  ::close(free);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit one_more{static_cast<rlim_t>(free) + 1, before.rlim_max};  // which the folder takes
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &one_more), 0);
  const std::string error = error_of([&] { latest_checkpoint(folder.path()); });
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_THAT(error, HasSubstr("step-3.safetensors: cannot open"));
}

TEST(Checkpoint, ARenamedFileIsRefused) {
  const TemporaryFolder folder;
  const std::filesystem::path path = save_checkpoint(example(12), folder.path());
  std::filesystem::rename(path, folder / "step-99.safetensors");
  EXPECT_THAT(error_of([&] { load_checkpoint(folder / "step-99.safetensors"); }), HasSubstr("of step 12: the file was renamed"));
  std::filesystem::rename(folder / "step-99.safetensors", folder / "best.safetensors");
  EXPECT_EQ(load_checkpoint(folder / "best.safetensors").step, 12);
}

TEST(Checkpoint, OtherDtypesAndShapesOfTheSameBytesAreDamage) {
  const TemporaryFolder folder;
  const std::filesystem::path path = save_checkpoint(example(1), folder.path());
  const std::string whole = get_file(path);
  for (const auto& [from, to] : {std::pair("\"F32\"", "\"I32\""), std::pair("\"shape\":[3]", "\"shape\":[3,1]")}) {
    std::string changed = whole;
    const size_t at = changed.find(from);
    ASSERT_NE(at, std::string::npos);
    changed.replace(at, std::string(from).size(), to);
    const auto header = static_cast<uint64_t>(changed.size() - whole.size() + *reinterpret_cast<const uint64_t*>(whole.data()));
    std::memcpy(changed.data(), &header, sizeof header);
    put_file(path, changed);
    EXPECT_THAT(error_of([&] { load_checkpoint(path); }), HasSubstr("do not match its hash"));
  }
}

TEST(Checkpoint, DamageAnywhereIsNoticed) {
  const TemporaryFolder folder;
  const std::filesystem::path path = save_checkpoint(example(1), folder.path());
  const std::string whole = get_file(path);
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    put_file(path, damaged);
    EXPECT_NE(error_of([&] { load_checkpoint(path); }), "no error") << "byte " << at << " of " << whole.size();
  }
}

TEST(Checkpoint, OtherFilesAndVersionsAreRefused) {
  const TemporaryFolder folder;
  save({}, folder / "plain");
  EXPECT_THAT(error_of([&] { load_checkpoint(folder / "plain"); }), HasSubstr("not a checkpoint of a training run"));
  save({}, folder / "new", {{"deckle.checkpoint", "17"}});
  EXPECT_THAT(error_of([&] { load_checkpoint(folder / "new"); }), HasSubstr("format version 17 (expected 2)"));
}

TEST(Checkpoint, MissingAndWrongFactsAreErrors) {
  const Checkpoint checkpoint = example(1);
  EXPECT_EQ(error_of([&] { checkpoint.integer("missing"); }), "Checkpoint::integer: the checkpoint has no \"missing\"");
  const TemporaryFolder folder;
  const std::filesystem::path path = save_checkpoint(checkpoint, folder / "run");
  EXPECT_EQ(error_of([&] { load_checkpoint(path).text("missing"); }), path.string() + ": the checkpoint has no \"missing\"");
  EXPECT_THAT(error_of([&] { checkpoint.integer("rate"); }), HasSubstr("expected an integer"));
  EXPECT_THAT(error_of([&] { checkpoint.natural("count"); }), HasSubstr("expected a non-negative integer"));
}

TEST(LatestCheckpoint, MissingRunsAreErrors) {
  const TemporaryFolder folder;
  EXPECT_THAT(error_of([&] { latest_checkpoint(folder.path()); }), HasSubstr("has no checkpoint"));
  EXPECT_THAT(error_of([&] { latest_checkpoint(folder / "no"); }), HasSubstr("no such run"));
}

}  // namespace
}  // namespace deckle::io
