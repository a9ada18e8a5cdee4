#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tools/deckle/ops_table.h"

namespace deckle::cli {
namespace {

TEST(HostTable, StandsInTheDocumentationAsTheEntriesSay) {
  std::ifstream file(GPU_DOCUMENTATION);
  ASSERT_TRUE(file) << GPU_DOCUMENTATION;
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_NE(text.str().find(list_host_ops()), std::string::npos)
      << "docs/gpu_reference.md holds another table than `deckle ops host` prints";
}

}  // namespace
}  // namespace deckle::cli
