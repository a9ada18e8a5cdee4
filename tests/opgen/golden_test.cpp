// Whole generated files, byte by byte. OPGEN_UPDATE=1 rewrites what is expected; read the difference before committing it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "opgen/text/strings.h"
#include "tests/opgen/support.h"

namespace opgen::testing {
namespace {

void expect_golden(const std::string& stem) {
  const Outcome outcome = compile_file(kFolder + "/golden/" + stem + ".yaml", stem + ".yaml");
  ASSERT_EQ(outcome.problems, Problems());
  for (const auto& [path, contents] : outcome.files) {
    if (path.find("nested") != std::string::npos) continue;
    std::string flat = path.substr(path.rfind('/') + 1);
    const std::string golden = kFolder + "/golden/expected/" + flat + ".txt";
    if (std::getenv("OPGEN_UPDATE")) write_if_changed(golden, contents);
    std::ifstream file(golden);
    ASSERT_TRUE(file) << golden << " does not exist";
    std::ostringstream expected;
    expected << file.rdbuf();
    EXPECT_EQ(contents, expected.str()) << golden;
  }
}

TEST(Golden, PointwiseOpsWithTheirFusedDerivatives) { expect_golden("forms"); }

TEST(Golden, KernelsViewsListsTuplesAndComposites) { expect_golden("ops"); }

TEST(Output, IsWrittenOnlyWhenItChanged) {
  const std::string path = std::string(::testing::TempDir()) + "opgen_output/file.txt";
  EXPECT_TRUE(write_if_changed(path, "one"));
  EXPECT_FALSE(write_if_changed(path, "one"));
  EXPECT_TRUE(write_if_changed(path, "two"));
  std::filesystem::remove_all(std::string(::testing::TempDir()) + "opgen_output");
}

TEST(Output, AnOpStaysInItsFileWhenOthersAreAdded) {
  EXPECT_EQ(shard_of("softmax", 5), shard_of("softmax", 5));
  bool spread = false;
  for (const char* name : {"add", "sub", "mul", "div", "exp", "log"}) spread = spread || shard_of(name, 3) != shard_of("add", 3);
  EXPECT_TRUE(spread);
}

}  // namespace
}  // namespace opgen::testing
