// Every rule of the generator: a file that breaks it, headed by the whole message that must come.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "tests/opgen/support.h"

namespace opgen::testing {
namespace {

std::vector<std::string> cases() {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(kFolder + "/errors")) names.push_back(file.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

class Errors : public ::testing::TestWithParam<std::string> {};

TEST_P(Errors, SayWhereWhatAndWhatWouldBeRight) {
  const std::string file = GetParam() + ".yaml", path = kFolder + "/errors/" + file;
  std::vector<std::string> expected;
  std::ifstream stream(path);
  const std::string mark = "# error: ";
  for (std::string line; std::getline(stream, line) && line.rfind(mark, 0) == 0;) expected.push_back(file + ":" + line.substr(mark.size()));
  ASSERT_FALSE(expected.empty()) << "the case states no error";
  EXPECT_EQ(compile_file(path, file).problems, expected);
}

INSTANTIATE_TEST_SUITE_P(Rules, Errors, ::testing::ValuesIn(cases()), [](const auto& info) { return info.param; });

TEST(BaseEntries, HaveNoProblems) {
  EXPECT_EQ(compile_file(kFolder + "/base.yaml", "again.yaml").problems.size(), 13u) << "each op stands twice then, and nothing else is wrong";
}

TEST(Mutations, AreErrorsWithPositionsOrFineButNeverCrash) {
  const uint64_t seed = std::random_device{}();
  std::mt19937_64 engine(seed);
  const auto below = [&](size_t limit) { return static_cast<size_t>(engine() % limit); };
  const std::string path = std::string(::testing::TempDir()) + "opgen_mutation.yaml", symbols = "()[]{}:,?!->*&|<>=.'\"0x%\n \t-#~";
  for (const char* stem : {"ops", "forms"}) {
    std::ifstream file(kFolder + "/golden/" + stem + ".yaml");
    const std::string original((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    ASSERT_FALSE(original.empty());
    for (int round = 0; round < 100; ++round) {
      std::string text = original;
      for (size_t changes = 1 + below(4); changes > 0; --changes) {
        const size_t at = below(text.size());
        if (below(2) == 0) text.erase(at, 1 + below(12));
        else text.insert(at, 1, symbols[below(symbols.size())]);
      }
      std::ofstream(path) << text;
      for (const std::string& problem : compile_file(path, "mutated.yaml").problems) {
        EXPECT_NE(problem.find(".yaml:"), std::string::npos) << "seed " << seed << ", without a position: " << problem << "\n" << text;
      }
    }
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace opgen::testing
