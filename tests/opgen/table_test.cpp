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

/// Compiles table.yaml beside functions written by hand.
Outcome with_by_hand(const std::string& file) {
  Inputs inputs = inputs_of(kFolder + "/table.yaml", "table.yaml", kFolder + "/custom");
  inputs.functions.push_back({kFolder + "/by_hand/" + file, file});
  Outcome outcome;
  CompileOptions options;
  options.core = true;
  outcome.files = compile(inputs, options, outcome.problems, outcome.notes);
  return outcome;
}

TEST(Table, KnowsFunctionsWithoutEntries) {
  const Outcome outcome = with_by_hand("list.yaml");
  ASSERT_EQ(outcome.problems, Problems());
  const std::string table = outcome.files.at("deckle/ops/generated/op_table.cpp");
  const auto of = [&](const std::string& name) { return table.substr(table.find("{\"" + name + "\"")); };
  EXPECT_EQ(of("spread").find("{\"spread\", \"spread(Box x) -> Box\", \"Both ways.\""), 0u) << of("spread");
  EXPECT_NE(of("spread").find("\"reverse yes   forward no (one_way)   second order yes   (made of one_way)\""),
            std::string::npos);
  EXPECT_NE(of("spread").find("\"box.h\", \"a box is no tensor\""), std::string::npos);
  EXPECT_NE(of("open").find("(hands on the values)"), std::string::npos) << "Box::open, under its own name";
  EXPECT_NE(of("slope").find("(as far as the function's ops have them)"), std::string::npos);
  EXPECT_NE(of("width").find("none: not differentiable"), std::string::npos);
}

TEST(Table, RefusesCallsOfNoOp) {
  EXPECT_EQ(with_by_hand("unknown_call.yaml").problems,
            Problems{"unknown_call.yaml:6:22: no op is named 'one_wey'; did you mean 'one_way'?"});
}

}  // namespace
}  // namespace opgen::testing
