// Replays the corpus: every input of tests/fuzz/corpus/TARGET is read, or refused if it is named here, within a second; what the
// fuzzer found, found_*, either.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "tests/fuzz/targets.h"

namespace deckle::fuzz {
namespace {

/// The inputs that are wrong, whatever else their readers may come to accept: all others are read.
const std::set<std::string> kRefused = {
    "opgen_entries/base",                  // its ops are known
    "opgen_entries/sample_set_of_others",  // of an op with other arguments
    "opgen_aten/aliases",                  // more than 100,000 values
    "safetensors/overlap",
    "checkpoint/names",  // of another hash, under names that are not a checkpoint's
    "checkpoint/one",
    "text/seed4",   // no UTF-8
    "jsonl/seed3",  // too deep
    "jsonl/seed4",
    "jsonl/seed5",  // half of a surrogate pair
    "utf8/seed1",
    "utf8/seed2",
    "utf8/seed3",
    "utf8/seed4",
    "ragged/huge",
};

class Replay : public ::testing::TestWithParam<Target> {};

TEST_P(Replay, EndsInOrder) {
  int inputs = 0;
  for (const auto& file : std::filesystem::directory_iterator(std::string(FUZZ_CORPUS) + "/" + GetParam().name)) {
    std::ifstream stream(file.path(), std::ios::binary);
    const std::string input{std::istreambuf_iterator<char>(stream), {}};
    const auto start = std::chrono::steady_clock::now();
    try {
      const std::string file_name = file.path().filename().string(), name = std::string(GetParam().name) + "/" + file_name;
      const bool read = GetParam().run(input);
      if (!file_name.starts_with("found_")) EXPECT_EQ(read, !kRefused.contains(name)) << name;
    } catch (const std::exception& error) {
      ADD_FAILURE() << file.path() << ": " << error.what();
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    EXPECT_LT(took.count(), 1.0) << file.path();
    ++inputs;
  }
  EXPECT_GT(inputs, 0) << "the corpus is empty";
}

INSTANTIATE_TEST_SUITE_P(Corpus, Replay, ::testing::ValuesIn(kTargets), [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace deckle::fuzz
