// The table behind `deckle ops`: derivatives are looked for through composites, as far as these are formulas.
#include <gtest/gtest.h>

#include "tests/opgen/support.h"

namespace opgen::testing {
namespace {

TEST(Table, LooksThroughComposites) {
  const Outcome outcome = compile_file(kFolder + "/table.yaml", "table.yaml", kFolder + "/custom");
  ASSERT_EQ(outcome.problems, Problems());
  const std::string table = outcome.files.at("deckle/ops/generated/op_table.cpp");
  const auto of = [&](const std::string& op) {
    const std::string row = table.substr(table.find("{\"" + op + "\""));
    return row.substr(0, row.find("},\n"));
  };
  const auto says = [&](const std::string& op, const std::string& derivatives) {
    return of(op).find("\"" + derivatives + "\"") != std::string::npos;
  };
  EXPECT_TRUE(says("one_way", "reverse yes   forward no   second order yes")) << of("one_way");
  EXPECT_TRUE(says("inner", "reverse yes   forward no   second order yes (through the ops that it calls)")) << of("inner");
  EXPECT_TRUE(says("through", "reverse yes   forward no   second order yes (through the ops that it calls)")) << of("through");
  EXPECT_TRUE(says("by_hand", "those of the ops that it calls: written by hand, not known here")) << of("by_hand");
  EXPECT_TRUE(says("both_ways", "reverse yes   forward yes   second order yes (by_hand: by hand, one_way: reverse only)"))
      << of("both_ways");
  EXPECT_EQ(outcome.notes, std::vector<std::string>{"table.yaml:2: one_way has no forward derivative"});
}

}  // namespace
}  // namespace opgen::testing
