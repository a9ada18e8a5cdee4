#include "opgen/emit/table/table.h"

#include <fmt/format.h>

#include "opgen/analyze/calls.h"
#include "opgen/emit/common/layout.h"
#include "opgen/emit/table/facts.h"
#include "opgen/text/strings.h"

namespace opgen::table {
namespace {

std::string derivatives_of(const FunctionByHand& function) {
  const std::string all = "reverse yes   forward yes   second order yes   ";
  if (function.kind == FunctionByHand::Kind::hands_on_values) return all + "(hands on the values)";
  if (function.kind == FunctionByHand::Kind::transforms_function) return all + "(as far as the function's ops have them)";
  Op composite;
  composite.body = Op::Body::composite_cpp;
  composite.calls = function.calls;
  return derivatives_text(composite);
}

std::string row_of(const FunctionByHand& function) {
  return fmt::format(
      "    {{{}, {}, {},\n     {}, \"none: made of other ops\", \"nothing\",\n     {},\n     \"as its signature "
      "says\", \"\", \"\", \"\",\n     {{\"\", \"\", \"\"}}, \"\", {}, {}}},\n",
      quote(function.name), quote(function.signature), quote(function.doc),
      quote(fmt::format("{}:{}", function.at.file.text(), function.at.line)), quote(derivatives_of(function)),
      quote(function.header), quote(function.because));
}

}  // namespace

constexpr const char* kSource = "the table of all ops";

void emit(const Program& program, const OutputOptions&, Files& files, std::vector<std::string>& notes) {
  std::string rows;
  for (const auto& op : program.ops) {
    if (op->external) continue;
    if (op->has_node() && op->limit.order == 0 && !derivatives_of(*op).no_forward.empty())
      notes.push_back(fmt::format("{}:{}: {} has no forward derivative", op->at.file.text(), op->at.line, op->unique_name()));
    const Facts facts = facts_of(*op);
    std::vector<std::string> variants;
    if (op->inplace) variants.push_back(op->name() + "_");
    if (op->out) variants.push_back(op->name() + "_out");
    rows += fmt::format(
        "    {{{}, {}, {},\n     {}, {}, {},\n     {},\n     {}, {}, {}, {},\n     {}, {}, \"\", \"\"}},\n", quote(op->name()),
        quote(op->schema.to_string()), quote(op->doc), quote(fmt::format("{}:{}", op->at.file.text(), op->at.line)),
        quote(facts.kernels), quote(facts.saves), quote(facts.derivatives), quote(facts.ragged), quote(facts.autocast),
        quote(facts.host), quote(facts.cpu_only),
        fmt::format("{{{}, {}, {}}}", quote(facts.dims[0]), quote(facts.dims[1]), quote(facts.dims[2])), quote(join(variants)));
  }
  for (const FunctionByHand& function : program.by_hand) rows += row_of(function);
  const Home& home = program.home;
  if (!home.plain)
    files.add(ops_file(home, "op_table.h"),
              fmt::format("// Generated from the op entries; change those, not this file.\n#pragma once\n\n#include "
                          "\"deckle/ops/op_table.h\"\n\n"
                          "namespace {0} {{\n\n/// All ops of this library, in the order of their entry files.\nstd::span<const "
                          "deckle::OpInfo> "
                          "op_table();\n\n}}  // namespace {0}\n",
                          home.space),
              kSource);
  files.add(
      ops_file(home, "op_table.cpp"),
      fmt::format(
          "// Generated from the op entries; change those, not this file.\n#include \"{0}\"\n\nnamespace {1} {{\n{2}namespace "
          "{{\n\nconstexpr OpInfo kOps[] = {{\n{3}}};\n\n}}  // namespace\n\nstd::span<const OpInfo> op_table() {{ return kOps; "
          "}}\n\n}}  "
          "// namespace {1}\n",
          home.plain ? "deckle/ops/op_table.h" : ops_file(home, "op_table.h"), home.space,
          home.plain ? "" : "using namespace deckle;\n", rows),
      kSource);
}

}  // namespace opgen::table
