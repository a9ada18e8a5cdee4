#include <fmt/format.h>

#include "opgen/ir/build.h"
#include "opgen/resolve/convert.h"
#include "opgen/resolve/resolver.h"
#include "opgen/resolve/rules.h"
#include "opgen/text/strings.h"

namespace opgen {

std::vector<const Op*> ops_called(const Text& name, const Program& program) {
  std::vector<const Op*> called = program.overloads_of(name.value());
  if (called.empty())
    throw Problem(name.at(0), fmt::format("no op is named '{}'{}", name.value(), did_you_mean(name.value(), program.op_names())));
  return called;
}

void resolve_composite(const Entry& entry, const Program& program, Op& op) {
  for (const Text& name : entry.calls) {
    const std::vector<const Op*> called = ops_called(name, program);
    op.calls.insert(op.calls.end(), called.begin(), called.end());
  }
  if (entry.body != Entry::Body::composite) return;
  Scope scope = argument_scope(op, program);
  const Type wanted = result_type_of(op.schema);
  const auto resolve = [&](const Formula& formula) {
    Scope own = scope;
    Block body = Resolver(own).resolve_body(formula);
    const auto converted = convert(body.value, wanted);
    if (!converted)
      throw Problem(formula.body->at, fmt::format("the result must be {}, but '{}' is {}", wanted.to_string(),
                                                  to_string(formula.body), body.value->type.to_string()));
    body.value = converted->first;
    return body;
  };
  const bool has_device = !op.tensors().empty() && op.schema.groups.empty();
  if (!entry.composite_on.empty() && !has_device)
    throw Problem(entry.body_at,
                  fmt::format("'{}' is made by device, which its tensors tell (expected tensors, and no records)", entry.name()));
  op.composite = resolve(entry.composite);
  for (const auto& [device, formula] : entry.composite_on) op.composite_on[device] = resolve(formula);
}

}  // namespace opgen
