#include "opgen/analyze/recompute.h"

#include <algorithm>

#include "opgen/analyze/uses.h"
#include "opgen/ir/build.h"

namespace opgen {
namespace {

using What = Symbol::What;

bool reads_whole(const Rule& rule, What what, size_t index) {
  const Uses uses = uses_of(rule.formula);
  const auto use = uses.find({what, index});
  return use != uses.end() && use->second.whole > 0;
}

/// Inputs whose gradient formulas read the argument as a whole: for their sake it is kept.
std::set<size_t> readers_of(const Op& op, size_t argument) {
  std::set<size_t> readers;
  for (const Rule& rule : op.reverse) {
    if (!rule.when && reads_whole(rule, What::argument, argument)) readers.insert(rule.of.begin(), rule.of.end());
  }
  return readers;
}

/// Whether all tensors that the op takes are kept for the sake of all inputs whose formulas read the result.
bool operands_are_kept(const Op& op, size_t result) {
  std::set<size_t> wanted;
  for (const Rule& rule : op.reverse) {
    if (reads_whole(rule, What::result, result)) wanted.insert(rule.of.begin(), rule.of.end());
  }
  return !wanted.empty() && op.schema.groups.empty() &&
         std::all_of(op.schema.arguments.begin(), op.schema.arguments.end(), [&](const Argument& argument) {
           if (!argument.type.is_tensor_like()) return true;
           const std::set<size_t> kept = readers_of(op, op.index_of(argument.name));
           return std::includes(kept.begin(), kept.end(), wanted.begin(), wanted.end());
         });
}

TermPtr recompute_result(const Op& op, size_t result, const Position& at) {
  std::vector<TermPtr> arguments;
  for (size_t i = 0; i < op.schema.arguments.size(); ++i) {
    const Argument& argument = op.schema.arguments[i];
    arguments.push_back(read({What::argument, i, argument.name, Symbol::How::whole}, argument.type, at));
  }
  const TermPtr all = call_of(op, std::move(arguments), at);
  return op.schema.results.size() == 1 ? all : element(all, result, op.schema.results[result].type, at);
}

/// Behind a new first let, which stands for the result.
TermPtr behind_let(const TermPtr& term, size_t result, const std::string& name) {
  if (term->is(TermKind::read)) {
    Symbol symbol = term->symbol;
    if (symbol.is(What::result, result) && symbol.how == Symbol::How::whole)
      symbol = {What::let, 0, name, Symbol::How::whole};
    else if (symbol.what == What::let)
      ++symbol.index;
    else
      return term;
    return read(symbol, term->type, term->at);
  }
  return with_arguments(term, [&](const TermPtr& argument) { return behind_let(argument, result, name); });
}

void compute_again(Op& op, size_t result) {
  const std::string name = op.result_name(result);
  for (Rule& rule : op.reverse) {
    if (!reads_whole(rule, What::result, result)) continue;
    std::vector<Let> lets = {{name, recompute_result(op, result, rule.at)}};
    for (const Let& let : rule.formula.lets) lets.push_back({let.name, behind_let(let.value, result, name)});
    rule.formula = {std::move(lets), behind_let(rule.formula.value, result, name)};
  }
  op.recomputed.push_back(result);
}

}  // namespace

void choose_recomputed(Program& program) {
  for (const auto& op : program.ops) {
    for (const size_t result : op->cheap) {
      if (operands_are_kept(*op, result)) compute_again(*op, result);
    }
  }
}

}  // namespace opgen
