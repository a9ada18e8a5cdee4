#include "opgen/compile.h"

#include <fmt/format.h>

#include "opgen/analyze/calls.h"
#include "opgen/analyze/claims.h"
#include "opgen/analyze/derivatives.h"
#include "opgen/analyze/devices.h"
#include "opgen/analyze/nested_checks.h"
#include "opgen/analyze/recompute.h"
#include "opgen/analyze/slopes.h"
#include "opgen/derive/rules.h"
#include "opgen/emit/cpp/emit.h"
#include "opgen/emit/nested/nested.h"
#include "opgen/emit/table/table.h"
#include "opgen/emit/tests/nested_tests.h"
#include "opgen/emit/tests/tests.h"
#include "opgen/readers/entries/load.h"
#include "opgen/resolve/entry_rules.h"
#include "opgen/resolve/resolve.h"

namespace opgen {

Program analyze(const Inputs& inputs, bool core, Problems& problems) {
  Library library;
  library.home = inputs.home;
  std::vector<EntryInput> files;
  for (const Input& input : inputs.known) files.push_back({input.path, input.name, true, input.home});
  for (const Input& input : inputs.entries) files.push_back({input.path, input.name, false, inputs.home});
  load_entries(files, library, problems);
  for (const Input& input : inputs.functions) load_functions(input.path, input.name, library, problems, input.home);
  add_ragged_forms(library, problems);
  if (problems.empty() && !inputs.functions.empty() && library.functions.empty() && library.sample_sets.empty())
    problems.push_back(fmt::format("{}:1:1: it declares neither scalar functions nor sets of samples, of which entries are made",
                                   inputs.functions[0].name));
  if (!problems.empty()) return {};
  check_entries(library, inputs.root, problems);
  if (core) check_library(library, inputs.root, problems);
  const bool own = core || (inputs.home.is_deckle() && inputs.known.empty());
  for (const auto& entry : library.entries) {
    if (!own && entry->method && !entry->external)
      refuse(problems, entry->at,
             fmt::format("'{}': only Deckle's own ops are methods of Tensor; leave 'method' out", entry->name()));
  }
  derive_rules(library, problems);
  if (!problems.empty()) return {};
  Program program = resolve(library, problems);
  if (problems.empty()) check_cycles(program, problems);
  if (problems.empty() && core) check_devices(program, problems);
  if (problems.empty()) check_nested_checks(program, problems);
  if (problems.empty()) check_claims(program, problems);
  if (problems.empty()) check_derivatives(program, problems);
  if (problems.empty()) check_slopes(program, problems);
  if (problems.empty()) choose_recomputed(program);
  return program;
}

Files compile(const Inputs& inputs, const CompileOptions& options, Problems& problems, std::vector<std::string>& notes) {
  const Program program = analyze(inputs, options.core, problems);
  Files files;
  if (!problems.empty()) return files;
  std::vector<Emitter> emitters;
  if (options.core || !inputs.home.is_deckle()) emitters.push_back({"table", table::emit});
  emitters.insert(emitters.end(), {{"cpp", cpp::emit}, {"nested", nested::emit}});
  if (options.tests) emitters.insert(emitters.end(), {{"tests", tests::emit}, {"nested tests", tests::emit_nested}});
  const bool emitted = attempt(problems, [&] {
    for (const Emitter& emitter : emitters) emitter.emit(program, options.output, files, notes);
  });
  return emitted ? files : Files();
}

}  // namespace opgen
