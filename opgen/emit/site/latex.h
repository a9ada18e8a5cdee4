#pragma once

#include <functional>
#include <string>

#include "opgen/emit/site/names.h"
#include "opgen/ir/program.h"

namespace opgen::site {

/// LaTeX and how tightly it binds: the numbers of formula/expr.h, with 7 for what takes parentheses as a base only.
struct Printed {
  std::string text;
  int precedence = 8;
  bool negative = false;  // begins with a minus sign of its own
};

/// The formulas of one op in LaTeX: the only one that knows how terms and expressions are spelled there.
class Latex {
 public:
  Latex(const Op& op, const Program& program) : op_(op), program_(program), letters_(op) {}

  const Letters& letters() const { return letters_; }
  std::string operator()(const Term& term) const { return print(term).text; }
  /// The expression of a pointwise op, over its own letters.
  std::string expression(const ExprPtr& expr) const;

 private:
  using Names = std::function<Printed(const std::string&)>;

  Printed print(const Term& term) const;
  Printed read(const Term& term) const;
  Printed call(const Term& term) const;
  Printed operation(Operator operation, const std::vector<TermPtr>& arguments) const;
  Printed property(const Term& term) const;
  Printed condition(const Term& term) const;
  Printed record(const Term& term) const;
  std::vector<std::string> all(const std::vector<TermPtr>& terms) const;
  Printed print(const ExprPtr& expr, const Names& names) const;
  Printed product(const ExprPtr& expr, const Names& names) const;
  Printed choice(const ExprPtr& expr, const Names& names) const;
  Printed call(const ExprPtr& expr, const Names& names) const;
  /// The expression of a fused derivative, with what it is called on in place of its arguments.
  Printed expand(const Op& derivative, const std::vector<TermPtr>& arguments) const;

  const Op& op_;
  const Program& program_;
  Letters letters_;
};

}  // namespace opgen::site
