#include "opgen/analyze/devices.h"

#include <fmt/format.h>

#include <set>

#include "opgen/analyze/uses.h"

namespace opgen {
namespace {

/// The ops that its formulas call where its operands are on a GPU, and, if it has a formula of its own there, elsewhere.
struct Calls {
  std::set<const Op*> on_gpu, on_cpu;

  explicit Calls(const Op& op) {
    std::set<const Op*>& everywhere = is_of_cpu(op) ? on_cpu : on_gpu;
    everywhere.insert(op.calls.begin(), op.calls.end());
    for (const Rule& rule : op.reverse) collect_calls(rule.formula, everywhere);
    for (const Rule& rule : op.forward) collect_calls(rule.formula, everywhere);
    for (const TangentTerm& term : op.tangent_terms) collect_calls(term.formula, everywhere);
    collect_calls(op.composite, op.composite_on.empty() ? everywhere : on_cpu);
    for (const auto& [device, formula] : op.composite_on) collect_calls(formula, on_gpu);
    on_cpu.erase(&op);  // a linear op's tangent
  }
};

}  // namespace

bool is_of_cpu(const Op& op) { return op.body == Op::Body::kernel && !op.kernels.count("cuda") && op.host.empty(); }

void check_devices(const Program& program, Problems& problems) {
  std::set<const Op*> called;
  for (const auto& op : program.ops) {
    const Calls calls(*op);
    called.insert(calls.on_cpu.begin(), calls.on_cpu.end());
    for (const Op* one : calls.on_gpu) {
      if (is_of_cpu(*one))
        refuse(problems, op->body_at,
               fmt::format("'{}' calls '{}' on a GPU too, which has no CUDA kernel: call it in the 'cpu:' formula of a composite "
                           "by device",
                           op->unique_name(), one->unique_name()));
    }
  }
  for (const auto& op : program.ops) {
    if (!is_of_cpu(*op)) continue;
    if (!called.count(op.get()))
      refuse(problems, op->body_at,
             fmt::format("'{}' has no CUDA kernel: add 'cuda: family/stem', or call it in the 'cpu:' formula of a composite by "
                         "device",
                         op->unique_name()));
    if (op->cpu_only.empty())
      refuse(problems, op->body_at,
             fmt::format("'{}' has no CUDA kernel and does not say why: add 'cpu_only:' with the reason, and what a GPU runs "
                         "instead",
                         op->unique_name()));
  }
}

}  // namespace opgen
