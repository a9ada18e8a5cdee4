#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "opgen/compile.h"
#include "opgen/formula/expr.h"
#include "opgen/readers/aten/report.h"
#include "opgen/schema/schema.h"
#include "tests/fuzz/targets.h"

namespace deckle::fuzz {

bool opgen_schema(std::string_view input) {
  const opgen::Text text(std::string(input), opgen::Position{"input", 1, 1});
  try {
    const std::string printed = opgen::parse_schema(text).to_string();
    const std::string again = opgen::parse_schema(opgen::Text(printed, opgen::Position{"printed", 1, 1})).to_string();
    require(printed == again, "a schema prints as " + printed + ", and that as " + again);
    return true;
  } catch (const opgen::Problem& problem) {
    require(std::string(problem.what()).rfind("input:", 0) == 0, std::string("refused after it was printed: ") + problem.what());
    return false;
  }
}

bool opgen_formula(std::string_view input) {
  const opgen::Text text(std::string(input), opgen::Position{"input", 1, 1});
  try {
    const opgen::ExprPtr tree = opgen::inline_lets(opgen::parse_formula(text));
    const std::string printed = opgen::to_string(tree);
    const opgen::ExprPtr again = opgen::parse_formula(opgen::Text(printed, opgen::Position{"printed", 1, 1})).body;
    require(opgen::equal(tree, again), "a formula prints as " + printed + ", and that as " + opgen::to_string(again));
    return true;
  } catch (const opgen::Problem& problem) {
    require(std::string(problem.what()).rfind("input:", 0) == 0, std::string("refused after it was printed: ") + problem.what());
    return false;
  }
}

bool opgen_entries(std::string_view input) {
  static const std::string path =
      (std::filesystem::temp_directory_path() / ("fuzz_entries_" + std::to_string(getpid()) + ".yaml")).string();
  std::ofstream(path, std::ios::binary).write(input.data(), static_cast<std::streamsize>(input.size()));
  opgen::Problems problems;
  std::vector<std::string> notes;
  opgen::Inputs inputs;
  inputs.functions = {{FUZZ_FUNCTIONS, "functions.yaml"}};
  inputs.known = {{FUZZ_KNOWN, "base.yaml"}};
  inputs.entries = {{path, "input.yaml"}};
  inputs.root = FUZZ_ROOT;
  const opgen::Files files = opgen::compile(inputs, {}, problems, notes);
  for (const std::string& problem : problems)
    require(problem.rfind("input.yaml:", 0) == 0, "a problem without a place: " + problem);
  require(problems.empty() || files.empty(), "files in spite of problems");
  return problems.empty();
}

/// A file of derivatives in PyTorch's dialect.
bool opgen_aten(std::string_view input) {
  static const std::string path =
      (std::filesystem::temp_directory_path() / ("fuzz_aten_" + std::to_string(getpid()) + ".yaml")).string();
  std::ofstream(path, std::ios::binary).write(input.data(), static_cast<std::streamsize>(input.size()));
  opgen::Problems problems;
  const opgen::aten::Checked checked =
      opgen::aten::check({FUZZ_ATEN_FUNCTIONS, "functions.yaml"}, {path, "input.yaml"}, problems);
  for (const std::string& problem : problems)
    require(problem.rfind("input.yaml:", 0) == 0, "a problem without a place: " + problem);
  for (const opgen::aten::NotTyped& one : checked.not_typed)
    require(one.at.file == "input.yaml" && one.at.line > 0, "not typed without a place: " + one.reason);
  opgen::aten::text_of(checked, true);
  opgen::aten::json_of(checked, problems);
  return problems.empty();
}

}  // namespace deckle::fuzz
