#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/opgen/support.h"

/// Entries over Deckle's own ops, as users may write them.
namespace opgen::testing {

inline const std::string kRoot = kFolder + "/../..";

/// The messages of each entry, which begin at these lines.
inline std::vector<std::vector<std::string>> refusals(const std::vector<std::string>& entries) {
  const std::string path = temporary_path("gradients.yaml");
  std::ofstream file(path);
  std::vector<int> last_line;
  int line = 0;
  for (const std::string& entry : entries) {
    file << entry;
    line += static_cast<int>(std::count(entry.begin(), entry.end(), '\n'));
    last_line.push_back(line);
  }
  file.close();
  Inputs inputs;
  inputs.functions = {{kRoot + "/ops/functions.yaml", "functions.yaml"}};
  for (const auto& known : std::filesystem::directory_iterator(kRoot + "/ops")) {
    const std::string name = known.path().filename().string();
    if (known.path().extension() == ".yaml" && name != "functions.yaml" && name != "instances.yaml")
      inputs.known.push_back({known.path().string(), name});
  }
  inputs.entries = {{path, "gradients.yaml"}};
  Problems problems;
  analyze(inputs, false, problems);
  std::vector<std::vector<std::string>> found(entries.size());
  for (const std::string& problem : problems) {
    const size_t digits = problem.find(':') + 1;
    const int at = problem.rfind("gradients.yaml:", 0) == 0 ? std::stoi(problem.substr(digits)) : 0;
    const auto entry = std::lower_bound(last_line.begin(), last_line.end(), at) - last_line.begin();
    EXPECT_GT(at, 0) << problem;
    if (at > 0) found[static_cast<size_t>(entry)].push_back(problem);
  }
  return found;
}

}  // namespace opgen::testing
