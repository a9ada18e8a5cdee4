// What a user of PyTorch or NumPy writes first, one line each, held to the values that PyTorch gives (lines.txt).
#include <gtest/gtest.h>

#include "tests/front_door/line.h"

namespace front_door {
namespace {

std::vector<Line> all_lines() {
  std::vector<Line> all;
  for (const auto& shard : {lines_0, lines_1, lines_2, lines_3}) {
    const std::vector<Line> lines = shard();
    all.insert(all.end(), lines.begin(), lines.end());
  }
  return all;
}

class Lines : public ::testing::TestWithParam<Line> {};

TEST_P(Lines, HaveTheValuesOfPyTorch) {
  const Line& line = GetParam();
  std::string value;
  try {
    value = line.run(Data());
  } catch (const std::exception& error) {
    value = std::string("error: ") + error.what();
  }
  EXPECT_EQ(value, line.value) << "lines.txt:" << line.number << ": " << line.program;
}

INSTANTIATE_TEST_SUITE_P(FrontDoor, Lines, ::testing::ValuesIn(all_lines()),
                         [](const auto& info) { return "Line" + std::to_string(info.param.number); });

}  // namespace
}  // namespace front_door
