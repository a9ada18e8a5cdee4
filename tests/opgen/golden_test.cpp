// Whole generated files, byte by byte. OPGEN_UPDATE=1 rewrites what is expected; read the difference before committing it.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "opgen/emit/dump/dump.h"
#include "opgen/text/strings.h"
#include "tests/opgen/support.h"

namespace opgen::testing {
namespace {

void expect_contents(const std::string& name, const std::string& contents) {
  const std::string golden = kFolder + "/golden/expected/" + name + ".txt";
  if (std::getenv("OPGEN_UPDATE")) write_if_changed(golden, contents);
  std::ifstream file(golden);
  ASSERT_TRUE(file) << golden << " does not exist";
  std::ostringstream expected;
  expected << file.rdbuf();
  EXPECT_TRUE(contents == expected.str()) << golden << " differs; OPGEN_UPDATE=1 rewrites it";
}

/// Every printer's output for one entry file, and the tree as text.
void expect_golden(const std::string& stem) {
  const std::string path = kFolder + "/golden/" + stem + ".yaml";
  const Outcome outcome = compile_file(path, stem + ".yaml");
  ASSERT_EQ(outcome.problems, Problems());
  for (const auto& [file, contents] : outcome.files) {
    const std::string flat = file.substr(file.rfind('/') + 1);
    const bool nested_header = file == "deckle/nested/generated/" + stem + ".h";
    const bool types_header = file == "deckle/kernels/args/generated/" + stem + ".h";
    expect_contents((nested_header ? "nested_" : types_header ? "types_of_" : "") + flat, contents);
  }
  std::string tree;
  Problems problems;
  const Program program = analyze(inputs_of(path, stem + ".yaml"), false, problems);
  for (const auto& op : program.ops) {
    if (!op->external) tree += dump::text_of(*op) + "\n";
  }
  expect_contents(stem + ".dump", tree);
}

TEST(Golden, PointwiseOpsWithTheirFusedDerivatives) { expect_golden("forms"); }

TEST(Golden, KernelsViewsListsTuplesAndComposites) { expect_golden("ops"); }

TEST(Golden, CornersOfTheLanguage) { expect_golden("corners"); }

TEST(Golden, TypesThatEntriesDeclare) { expect_golden("types"); }

TEST(Golden, FormulasForEachElementOfAList) { expect_golden("lists"); }

TEST(Golden, FormulasByCaseAndDeviceAndWhatTheyShare) { expect_golden("cases"); }

TEST(Golden, OperandsThatAreConvertedInAScope) { expect_golden("autocast"); }

TEST(Golden, MethodsOfTensorAndNestedTensor) {
  const std::string root = kFolder + "/golden";
  const Outcome outcome = compile_file(root + "/front_methods.yaml", "front_methods.yaml", root);
  ASSERT_EQ(outcome.problems, Problems());
  for (const char* file : {"core/generated/method_types.h", "core/generated/tensor_methods.h", "ops/generated/tensor_methods.cpp",
                           "nested/generated/nested_methods.h", "nested/generated/nested_methods.cpp"}) {
    const std::string path = std::string("deckle/") + file;
    expect_contents(path.substr(path.rfind('/') + 1), outcome.files.at(path));
  }
}

TEST(Golden, KernelsOfABuildWithCuda) {
  const Outcome outcome = compile_file(kFolder + "/golden/cuda.yaml", "cuda.yaml", "", true);
  ASSERT_EQ(outcome.problems, Problems());
  for (const char* file : {"cuda_0.cpp", "cuda_kernels_0.cu", "kernels_cuda.h"})
    expect_contents(file, outcome.files.at(std::string("deckle/ops/generated/") + file));
  const Outcome without = compile_file(kFolder + "/golden/cuda.yaml", "cuda.yaml");
  EXPECT_FALSE(without.files.count("deckle/ops/generated/cuda_kernels_0.cu") > 0);
  EXPECT_EQ(without.files.at("deckle/ops/generated/cuda_0.cpp").find("kernels::cuda"), std::string::npos);
}

TEST(Golden, SizesOfRowsThatRepeat) { expect_golden("sizes"); }

TEST(Output, IsWrittenOnlyWhenItChanged) {
  const std::string path = temporary_path("output/file.txt");
  EXPECT_TRUE(write_if_changed(path, "one"));
  EXPECT_FALSE(write_if_changed(path, "one"));
  EXPECT_TRUE(write_if_changed(path, "two"));
}

TEST(Output, KeepsItsTimeWhereOnlyDocumentationChanges) {
  namespace fs = std::filesystem;
  const std::string path = temporary_path("output/header.h");
  const auto time_after = [&](const std::string& contents) {
    write_if_changed(path, contents);
    return fs::last_write_time(path);
  };
  write_if_changed(path, "/// One.\nint f();\n");
  const auto old = fs::last_write_time(path) - std::chrono::hours(1);
  fs::last_write_time(path, old);
  EXPECT_EQ(time_after("/// Two.\nint f();\n"), old);
  std::string first;
  std::ifstream file(path);
  std::getline(file, first);
  EXPECT_EQ(first, "/// Two.") << "it is written all the same";
  EXPECT_GT(time_after("/// Two.\n/// Lines move.\nint f();\n"), old);
  fs::last_write_time(path, old);
  EXPECT_GT(time_after("/// Two.\n/// Lines move.\nint g();\n"), old);
  fs::last_write_time(path, old);
  EXPECT_GT(time_after("/// Two.\nint g();\nint g();\n"), old) << "documentation that becomes code";
}

TEST(Output, AnOpStaysInItsFileWhenOthersAreAdded) {
  EXPECT_EQ(shard_of("softmax", 5), shard_of("softmax", 5));
  bool spread = false;
  for (const char* name : {"add", "sub", "mul", "div", "exp", "log"}) spread = spread || shard_of(name, 3) != shard_of("add", 3);
  EXPECT_TRUE(spread);
}

}  // namespace
}  // namespace opgen::testing
