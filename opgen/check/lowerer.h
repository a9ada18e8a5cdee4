#pragma once

#include <string>
#include <vector>

#include "opgen/check/lower.h"

namespace opgen {

struct Property;

/// lower() at work: names, properties and calls are in lower.cpp, operators and literals of several values in operators.cpp.
class Lowerer {
 public:
  explicit Lowerer(Scope& scope) : scope_(scope) {}

  Lowered lower(const ExprPtr& expr);
  std::string lower_to(const ExprPtr& expr, const Type& wanted, const std::string& what);

 private:
  const Binding& binding(const ExprPtr& expr);
  Lowered name(const ExprPtr& expr);
  Lowered property(const ExprPtr& expr, const Property& property);
  Type type_without_use(const ExprPtr& object);
  Lowered method(const ExprPtr& expr);
  std::string qualified(const std::string& function) const;
  Lowered call(const ExprPtr& expr, const std::vector<ExprPtr>& args, const std::vector<std::string>& keys);
  Lowered asked(const ExprPtr& expr, const std::vector<ExprPtr>& args);

  void require_op(const std::string& op, const ExprPtr& expr);
  Lowered unary(const ExprPtr& expr);
  Lowered binary(const ExprPtr& expr);
  Lowered conditional(const ExprPtr& expr, const ExprPtr& condition, const ExprPtr& yes, const ExprPtr& no);
  Lowered tuple(const ExprPtr& expr);
  Lowered list(const ExprPtr& expr);
  Lowered index(const ExprPtr& expr);

  Scope& scope_;
};

}  // namespace opgen
