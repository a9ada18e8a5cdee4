// Ragged forms: what an entry over `dim` says over the rows of each component.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "opgen/emit/dump/dump.h"
#include "tests/opgen/support.h"

namespace opgen::testing {
namespace {

/// The op `name` of entries beside Deckle's own, as text.
std::string tree_of(const std::string& entries, const std::string& name) {
  const std::string path = temporary_path("ragged_form.yaml"), ops = kFolder + "/../../ops";
  std::ofstream(path) << entries;
  Inputs inputs;
  inputs.functions = {{ops + "/functions.yaml", "functions.yaml"}};
  for (const auto& file : std::filesystem::directory_iterator(ops)) {
    const std::string stem = file.path().stem().string();
    if (file.path().extension() == ".yaml" && stem != "functions" && stem != "instances")
      inputs.known.push_back({file.path().string(), stem});
  }
  inputs.entries = {{path, "ragged_form.yaml"}};
  inputs.root = kFolder + "/../..";
  Problems problems;
  const Program program = analyze(inputs, false, problems);
  EXPECT_EQ(problems, Problems());
  return program.has(name) ? dump::text_of(*program.overloads_of(name)[0]) : "no op " + name;
}

TEST(RaggedForm, ReadsOpsAndWordsOverDimAsOverTheRows) {
  const std::string entries = R"(
- func: outlier(Tensor self, int[]? dim=None, float power=2, bool keepdim=False) -> Tensor
  doc: The largest distance from the mean over dim.
  composite: >
    let means = average(sum(self, dim, keepdim), self, dim)
    in amax(pow(broadcast_back(means, self, dim) - mean(self, dim, true), power), dim, keepdim)
  nested: {segment: true}
  samples: [{self: [3, 4], dim: [1]}]
)";
  const std::string dense = tree_of(entries, "outlier"), ragged = tree_of(entries, "segment_outlier");
  EXPECT_NE(dense.find("reduced_count"), std::string::npos) << dense;
  EXPECT_EQ(dense.find("segment_sum"), std::string::npos) << dense;
  EXPECT_NE(ragged.find("segment_outlier(self: Tensor, ragged: Ragged, power: float)"), std::string::npos) << ragged;
  EXPECT_NE(ragged.find("segment_amax("), std::string::npos) << ragged;
  EXPECT_NE(ragged.find("segment_broadcast(call segment_mean(read self : Tensor, read ragged : Ragged)"), std::string::npos)
      << ragged;
  EXPECT_NE(ragged.find("segment_lengths("), std::string::npos) << ragged;
  EXPECT_EQ(ragged.find("dim"), std::string::npos) << ragged;
}

TEST(RaggedForm, ComputesItsRowsAgainWhereTheEntryDoesItsIndices) {
  const std::string ragged = tree_of(R"yaml(
- func: placed(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)
  doc: The largest along dim and where it is.
  kernel: {cpu: {file: reduce/arg_extrema, function: placed}}
  result: ["empty(without_dim(self.sizes(), dim, keepdim), self.dtype())",
      "empty(without_dim(self.sizes(), dim, keepdim), int64)"]
  derivative:
    self: put_back(grad, indices, self, dim)
    values: chosen(self_t, indices, dim)
  recompute: indices
  nested: {segment: {cpu: {file: segment/extrema, function: segment_placed}}}
  samples: [{self: [4, 7], dim: 0}]
)yaml",
                                     "segment_placed");
  EXPECT_NE(ragged.find("segment_placed(self: Tensor, ragged: Ragged)"), std::string::npos) << ragged;
}

}  // namespace
}  // namespace opgen::testing
