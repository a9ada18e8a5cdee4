#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "opgen/analyze/degree.h"
#include "opgen/ir/op.h"

namespace opgen {

/// How a value depends on the variables of a formula, which it is to be linear in: gradients that arrive, or tangents.
struct Dependence {
  Degree degree = Degree::constant;
  std::vector<Dependence> parts = {};       // of a tuple, a record, or the results of a call
  std::shared_ptr<const Problem> why = {};  // degree other: what is not linear

  const Dependence& part(size_t position) const { return position < parts.size() ? parts[position] : *this; }
};

using DependenceOf = std::function<Dependence(const Symbol&)>;

/// Asks what formulas are linear in. An op is linear in some arguments together, the others held, if its expression or the
/// formula of a composite is, if its entry says `linear`, or if its gradients say so. An op with none of these is not, nor one
/// through which nothing is differentiated, nor one whose result is integers.
class Linearity {
 public:
  /// The dependence of a formula's value, where its symbols, lets apart, depend on the variables as `of_symbol` says.
  Dependence of(const Block& formula, const DependenceOf& of_symbol);
  /// Whether the op is linear in some of its tensors.
  bool in_some_tensor(const Op& op);

 private:
  struct Reading;
  Dependence of(const Term& term, Reading& reading);
  Dependence of_call(const Term& call, Reading& reading);
  /// The dependence of the results of `op` for such arguments, one for each of the signature.
  Dependence of_op(const Op& op, const std::vector<Dependence>& arguments);
  Dependence results_of(const Op& op, const std::vector<Dependence>& arguments);
  /// The dependence of a composite's result, whatever the device.
  Dependence of_composite(const Op& op, const std::vector<Dependence>& arguments);
  /// Says of the results of a call that are not linear why, those of records one by one, from number `result` on.
  void explain(Dependence& value, const Term& call, const std::vector<Dependence>& arguments, size_t& result);
  Problem reason(const Term& call, const std::vector<Dependence>& arguments, size_t result);

  std::map<std::pair<const Op*, std::string>, Dependence> known_;
};

}  // namespace opgen
