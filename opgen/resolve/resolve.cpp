#include "opgen/resolve/resolve.h"

#include <fmt/format.h>

#include "opgen/resolve/launch.h"
#include "opgen/resolve/rules.h"
#include "opgen/resolve/samples.h"

namespace opgen {
namespace {

void resolve_entry(const Entry& entry, const Library& library, const Program& program, Op& op) {
  resolve_launch(entry, program, library, op);
  resolve_composite(entry, program, op);
  resolve_derivative(entry, program, op);
}

void resolve_by_hand(const Library& library, Program& program, Problems& problems) {
  for (const WrittenFunction& written : library.by_hand) {
    FunctionByHand function = written.function;
    attempt(problems, [&] {
      for (const Text& name : written.calls) {
        const std::vector<const Op*> called = ops_called(name, program);
        function.calls.insert(function.calls.end(), called.begin(), called.end());
      }
    });
    program.by_hand.push_back(std::move(function));
  }
}

}  // namespace

Program resolve(const Library& library, Problems& problems) {
  Program program;
  program.types = library.types;
  program.enums = library.enums;
  program.records = library.records;
  program.functions = library.functions;
  program.helpers = library.helpers;
  program.headers = library.headers;
  program.home = library.home;
  std::vector<Op*> ops;
  for (const auto& entry : library.entries) {
    auto op = std::make_unique<Op>();
    static_cast<Declaration&>(*op) = *entry;
    ops.push_back(&program.add(std::move(op)));
  }
  Problems elsewhere;  // said where external entries are compiled
  for (size_t i = 0; i < ops.size(); ++i) {
    const Entry& entry = *library.entries[i];
    attempt(entry.external ? elsewhere : problems, [&] { resolve_entry(entry, library, program, *ops[i]); });
  }
  for (size_t i = 0; i < ops.size(); ++i) {
    const Entry& entry = *library.entries[i];
    if (!entry.external) attempt(problems, [&] { resolve_samples(entry, library, *ops[i]); });
  }
  resolve_by_hand(library, program, problems);
  return program;
}

}  // namespace opgen
