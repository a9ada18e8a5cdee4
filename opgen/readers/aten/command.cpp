#include "opgen/readers/aten/command.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <map>

#include "opgen/readers/aten/entries.h"
#include "opgen/readers/aten/report.h"

namespace opgen::aten {
namespace {

constexpr const char* kUsage =
    "usage: opgen check --functions native_functions.yaml --derivatives derivatives.yaml [--json | --summary]\n"
    "       opgen convert --functions native_functions.yaml --derivatives derivatives.yaml --layer LAYER.yaml\n";

File file_of(const std::string& path) { return {path, std::filesystem::path(path).filename().string()}; }

/// Options with a value and without; false at anything else, or where a file is missing.
bool parse(const std::vector<std::string>& words, const std::vector<std::string>& files, const std::vector<std::string>& flags,
           std::map<std::string, std::string>& found) {
  for (size_t i = 0; i < words.size(); ++i) {
    bool known = false;
    for (const std::string& file : files) {
      if (words[i] != file || i + 1 == words.size()) continue;
      found[file] = words[++i];
      known = true;
      break;
    }
    for (const std::string& flag : flags) {
      if (known || words[i] != flag) continue;
      found[flag] = "yes";
      known = true;
    }
    if (!known) return false;
  }
  for (const std::string& file : files) {
    if (found[file].empty()) return false;
  }
  return true;
}

int usage() {
  fmt::print(stderr, "{}", kUsage);
  return 2;
}

int finish(const Problems& problems, const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  return report(problems);
}

}  // namespace

int check_command(const std::vector<std::string>& words) {
  std::map<std::string, std::string> options;
  if (!parse(words, {"--functions", "--derivatives"}, {"--json", "--summary"}, options)) return usage();
  Problems problems;
  const Checked checked = check(file_of(options["--functions"]), file_of(options["--derivatives"]), problems);
  return finish(problems,
                options["--json"].empty() ? text_of(checked, options["--summary"].empty()) : json_of(checked, problems));
}

int convert_command(const std::vector<std::string>& words) {
  std::map<std::string, std::string> options;
  if (!parse(words, {"--functions", "--derivatives", "--layer"}, {}, options)) return usage();
  Problems problems;
  const File derivatives = file_of(options["--derivatives"]);
  const Checked checked = check(file_of(options["--functions"]), derivatives, problems);
  const std::string text = entries_of(checked, file_of(options["--layer"]), derivatives.name, problems);
  return finish(problems, problems.empty() ? text : "");
}

}  // namespace opgen::aten
