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

/// One step of an entry; false if it had a problem.
template <typename Step>
bool attempt(const Entry& entry, Problems& problems, const Step& step) {
  try {
    step();
    return true;
  } catch (const Problem& problem) {
    if (!entry.external) problems.emplace_back(problem.what());
    return false;
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
  for (size_t i = 0; i < ops.size(); ++i) {
    const Entry& entry = *library.entries[i];
    attempt(entry, problems, [&] { resolve_entry(entry, library, program, *ops[i]); });
  }
  for (size_t i = 0; i < ops.size(); ++i) {
    const Entry& entry = *library.entries[i];
    if (!entry.external) attempt(entry, problems, [&] { resolve_samples(entry, library, *ops[i]); });
  }
  return program;
}

}  // namespace opgen
