#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/support/device_tolerances.h"

namespace deckle::testing {
namespace {

TEST(DeviceTolerances, StandInTheDocumentation) {
  std::ifstream file(GPU_DOCUMENTATION);
  ASSERT_TRUE(file) << GPU_DOCUMENTATION;
  std::ostringstream text;
  text << file.rdbuf();
  std::string table = "| | float64 | float32 | bfloat16 |\n|---|---|---|---|\n";
  for (const DeviceTolerance& tolerance : kDeviceTolerances) table += tolerance.row();
  EXPECT_NE(text.str().find(table), std::string::npos) << "docs/gpu_reference.md holds another table than\n" << table;
}

}  // namespace
}  // namespace deckle::testing
