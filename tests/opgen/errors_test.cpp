// Every rule of the generator: a file that breaks it, headed by the whole message that must come.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

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

}  // namespace
}  // namespace opgen::testing
