#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tools/deckle/ops_table.h"

namespace deckle::cli {
namespace {

TEST(NestedTable, StandsInTheDocumentationAsTheEntriesSay) {
  std::ifstream file(NESTED_DOCUMENTATION);
  ASSERT_TRUE(file) << NESTED_DOCUMENTATION;
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_NE(text.str().find(list_nested_ops()), std::string::npos)
      << "docs/nested.md holds another table than `deckle ops nested` prints: replace what follows its last heading";
}

}  // namespace
}  // namespace deckle::cli
