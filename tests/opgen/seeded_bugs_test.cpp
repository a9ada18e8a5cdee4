// seeded_bugs/bugs.txt changes texts of the generator: each stands there, once.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "tests/opgen/support.h"

namespace opgen::testing {
namespace {

/// Name -> the text that the bug changes.
std::map<std::string, std::string> changed_texts() {
  std::map<std::string, std::string> found;
  std::ifstream file(kFolder + "/seeded_bugs/bugs.txt");
  std::string name;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("== ", 0) == 0) name = line.substr(3);
    if (line.rfind("- ", 0) != 0) continue;
    std::string& text = found[name];
    text += (text.empty() ? "" : "\n") + line.substr(2);
  }
  return found;
}

TEST(SeededBugs, ChangeTextsThatStandOnceInTheGenerator) {
  const std::map<std::string, std::string> bugs = changed_texts();
  ASSERT_GE(bugs.size(), 12U);
  std::map<std::string, int> times;
  for (const auto& file : std::filesystem::recursive_directory_iterator(kFolder + "/../../opgen")) {
    if (file.path().extension() != ".cpp") continue;
    std::ifstream stream(file.path());
    const std::string source((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
    for (const auto& [name, text] : bugs) {
      for (size_t at = source.find(text); at != std::string::npos; at = source.find(text, at + 1)) ++times[name];
    }
  }
  for (const auto& [name, text] : bugs) EXPECT_EQ(times[name], 1) << name << ": " << text;
}

}  // namespace
}  // namespace opgen::testing
