// Entry files whose names would make one file of two.
#include <gtest/gtest.h>

#include "tests/opgen/support.h"

namespace opgen::testing {
namespace {

/// Compiles files of tests/opgen/outputs as one library.
Problems problems_of(const std::vector<std::string>& names, const Home& home = {"mine", false}) {
  Inputs inputs = inputs_of("", "");
  inputs.home = home;
  inputs.entries.clear();
  for (const std::string& name : names) inputs.entries.push_back({kFolder + "/outputs/" + name, name, home});
  for (Input& input : inputs.known) input.home = {"deckle", home.plain};
  CompileOptions options;
  options.tests = true;
  Problems problems;
  std::vector<std::string> notes;
  const Files files = compile(inputs, options, problems, notes);
  EXPECT_EQ(files.empty(), !problems.empty());
  return problems;
}

TEST(Outputs, OverwriteNoOthers) {
  EXPECT_EQ(problems_of({"a.yaml", "a_kernels.yaml"}),
            Problems{"a_kernels.yaml:1:1: 'mine/ops/a_kernels_0.cpp' is what is made from a.yaml too: give one of the two files "
                     "another name"});
  EXPECT_EQ(problems_of({"a.yaml", "nested_a.yaml"}),
            Problems{"a.yaml:1:1: 'tests/nested_a_0_test.cpp' is what is made from nested_a.yaml too: give one of the two files "
                     "another name"});
  EXPECT_EQ(problems_of({"op_table.yaml"}),
            Problems{"op_table.yaml:1:1: 'mine/ops/op_table.h' is what is made from the table of all ops too: give one of the "
                     "two files another name"});
  EXPECT_EQ(problems_of({"a.yaml", "other/a.yaml"}),
            Problems{"other/a.yaml:1:1: what is made from the file would have the names of what is made from a.yaml: call one of "
                     "the two otherwise than 'a'"});
  EXPECT_EQ(problems_of({"a.yaml"}), Problems());
}

}  // namespace
}  // namespace opgen::testing
