#include "opgen/compile.h"

#include "opgen/check/rules.h"
#include "opgen/derive/rules.h"
#include "opgen/emit/calls.h"
#include "opgen/emit/nested_tests.h"
#include "opgen/emit/table.h"
#include "opgen/emit/tests.h"

namespace opgen {

Files compile(const Inputs& inputs, const CompileOptions& options, Problems& problems, std::vector<std::string>& notes) {
  Library library;
  for (const Input& input : inputs.functions) load_functions(input.path, input.name, library, problems);
  for (const Input& input : inputs.known) load_entries(input.path, input.name, true, library, problems);
  for (const Input& input : inputs.entries) load_entries(input.path, input.name, false, library, problems);
  if (!problems.empty()) return {};
  check_entries(library, inputs.root, problems);
  if (options.core) check_library(library, inputs.root, problems);
  derive_rules(library, problems);
  if (!problems.empty()) return {};
  const size_t before = problems.size();
  check_cycles(composite_calls(library), problems);
  if (problems.size() > before) return {};
  Files files = emit_library(library, options.output, problems);
  emit_nested_files(library, files);
  if (options.core) emit_table(library, files, problems, notes);
  if (options.tests) {
    emit_tests(library, options.output, files, problems);
    if (problems.empty()) emit_nested_tests(library, options.output, files, problems);
  }
  return problems.empty() ? files : Files();
}

}  // namespace opgen
