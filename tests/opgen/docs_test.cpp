// The entries that the documentation shows: each compiles, beside Deckle's own.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "opgen/text/strings.h"
#include "tests/opgen/support.h"

namespace opgen::testing {
namespace {

const std::string kRoot = kFolder + "/../..";

/// The blocks of a page that begin with ```yaml and hold entries, with names that Deckle's ops do not have.
std::vector<std::string> entries_of(const std::string& page) {
  std::vector<std::string> found;
  std::ifstream file(kRoot + "/" + page);
  std::string block;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    const size_t first = std::min(line.find_first_not_of(' '), line.size());
    const std::string text = line.substr(first);
    if (inside && text == "```") {
      if (block.find("- func: ") != std::string::npos) found.push_back(block);
      inside = false;
    } else if (inside) {
      const std::string func = "- func: ";
      block += (text.rfind(func, 0) == 0 ? line.substr(0, first) + func + "shown_" + text.substr(func.size()) : line) + "\n";
    } else if (text == "```yaml") {
      inside = true;
      block.clear();
    }
  }
  return found;
}

Problems compiled(const std::string& entries) {
  const std::string path = temporary_path("shown_in_docs.yaml");
  std::ofstream(path) << entries;
  Inputs inputs;
  inputs.functions = {{kRoot + "/ops/functions.yaml", "functions.yaml"}};
  for (const auto& file : std::filesystem::directory_iterator(kRoot + "/ops")) {
    const std::string name = file.path().filename().string();
    if (file.path().extension() == ".yaml" && name != "functions.yaml" && name != "instances.yaml")
      inputs.known.push_back({file.path().string(), name});
  }
  inputs.entries = {{path, "shown_in_docs.yaml"}};
  Problems problems;
  std::vector<std::string> notes;
  compile(inputs, {}, problems, notes);
  return problems;
}

class Docs : public ::testing::TestWithParam<std::string> {};

TEST_P(Docs, ShowEntriesThatCompile) {
  const std::vector<std::string> blocks = entries_of(GetParam());
  ASSERT_FALSE(blocks.empty());
  std::string all;
  for (const std::string& block : blocks) {
    EXPECT_EQ(compiled(block), Problems()) << block;
    all += block;
  }
  for (const char* word : {"when:", "recompute: "}) {
    const bool elsewhere = GetParam() == "docs/autograd.md" && std::string(word) == "when:";
    EXPECT_TRUE(elsewhere || all.find(word) != std::string::npos) << word;
  }
}

INSTANTIATE_TEST_SUITE_P(Pages, Docs, ::testing::Values("ops/SCHEMA.md", "docs/adding_an_op.md", "docs/autograd.md"),
                         [](const auto& info) { return info.param.substr(5, info.param.find_last_of('.') - 5); });

}  // namespace
}  // namespace opgen::testing
