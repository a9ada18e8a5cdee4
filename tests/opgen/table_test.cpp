// The table behind `deckle ops`: derivatives are looked for through composites, those in C++ too.
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
  EXPECT_TRUE(says("one_way", "reverse yes   forward no (one_way)   second order yes")) << of("one_way");
  EXPECT_TRUE(says("inner", "reverse yes   forward no (one_way)   second order yes   (made of exp, one_way)")) << of("inner");
  EXPECT_TRUE(says("through", "reverse yes   forward no (one_way)   second order yes   (made of add, inner)")) << of("through");
  EXPECT_TRUE(says("by_hand", "reverse yes   forward yes   second order no (last)   (made of last, neg)")) << of("by_hand");
  EXPECT_TRUE(says("both_ways", "reverse yes   forward yes   second order yes (one_way: reverse only)")) << of("both_ways");
  EXPECT_TRUE(says("last", "reverse yes   forward yes   second order no (last)")) << of("last");
  EXPECT_TRUE(says("ends", "none: those of last end at order 1")) << of("ends");
  EXPECT_TRUE(says("constant", "none: not differentiable")) << of("constant");
  EXPECT_TRUE(says("place", "none: not differentiable")) << of("place");
  EXPECT_EQ(outcome.notes, std::vector<std::string>{"table.yaml:2: one_way has no forward derivative"});
}

}  // namespace
}  // namespace opgen::testing
