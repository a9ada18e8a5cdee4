#include "opgen/emit/table/table.h"

#include <fmt/format.h>

#include "opgen/analyze/calls.h"
#include "opgen/emit/table/facts.h"
#include "opgen/text/strings.h"

namespace opgen::table {

void emit(const Program& program, const OutputOptions&, Files& files, std::vector<std::string>& notes) {
  std::string rows;
  for (const auto& op : program.ops) {
    if (op->external) continue;
    if (op->has_node() && op->limit.order == 0 && !derivatives_of(*op).no_forward.empty())
      notes.push_back(fmt::format("{}:{}: {} has no forward derivative", op->at.file, op->at.line, op->unique_name()));
    const Facts facts = facts_of(*op);
    rows += fmt::format("    {{{}, {}, {},\n     {}, {}, {},\n     {},\n     {},\n     {}}},\n", quoted(op->name()),
                        quoted(op->schema.to_string()), quoted(op->doc), quoted(fmt::format("{}:{}", op->at.file, op->at.line)),
                        quoted(facts.kernels), quoted(facts.saves), quoted(facts.derivatives), quoted(facts.ragged),
                        fmt::format("{{{}, {}, {}}}", quoted(facts.dims[0]), quoted(facts.dims[1]), quoted(facts.dims[2])));
  }
  files["deckle/ops/generated/op_table.cpp"] =
      "// Generated from the op entries; change those, not this file.\n#include \"deckle/ops/op_table.h\"\n\nnamespace deckle "
      "{\nnamespace {\n\nconstexpr OpInfo kOps[] = {\n" +
      rows + "};\n\n}  // namespace\n\nstd::span<const OpInfo> op_table() { return kOps; }\n\n}  // namespace deckle\n";
}

}  // namespace opgen::table
