#include "opgen/resolve/scope.h"

#include <fmt/format.h>

#include "opgen/ir/build.h"

namespace opgen {
namespace {

using What = Symbol::What;

void define(Scope& scope, const std::string& name, Type type, What what, size_t index, std::string refuse = "") {
  scope.names[name] = {std::move(type), {what, index, name, Symbol::How::whole}, std::move(refuse)};
}

void define_results(Scope& scope, const Op& op) {
  for (size_t i = 0; i < op.schema.results.size(); ++i)
    define(scope, op.result_name(i), op.schema.results[i].type, What::result, i);
}

}  // namespace

Scope reverse_scope(const Op& op, const Program& program) {
  Scope scope{program, {}, "wants", {}};
  const std::vector<Argument>& arguments = op.schema.arguments;
  for (size_t i = 0; i < arguments.size(); ++i) define(scope, arguments[i].name, arguments[i].type, What::argument, i);
  define_results(scope, op);
  const std::vector<Result>& results = op.schema.results;
  const Type list = type_of(Base::tensor, true);
  if (results.size() == 1 && results[0].type.list) {
    define(scope, "grads", list, What::gradients, 0);
    define(scope, "grad", tensor_type(), What::gradient, 0, "the result is a list: its gradients are 'grads'");
    return scope;
  }
  define(scope, "grad", tensor_type(), What::gradient, 0);
  if (results.size() > 1)
    define(scope, "grads", list, What::gradients, 0,
           fmt::format("'grads' of several results is read one by one: grads[0] to grads[{}]", results.size() - 1));
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].name.empty()) define(scope, "grad_" + results[i].name, tensor_type(), What::gradient, i);
    if (results.size() > 1) define(scope, fmt::format("grad{}", i), tensor_type(), What::gradient, i);
  }
  return scope;
}

Scope forward_scope(const Op& op, const Program& program) {
  Scope scope{program, {}, "has_t", {}};
  const std::vector<Argument>& arguments = op.schema.arguments;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Argument& argument = arguments[i];
    if (!argument.type.is_tensor_like()) {
      define(scope, argument.name, argument.type, What::argument, i);
      continue;
    }
    // What has no tangent is clear by its bare name.
    define(scope, argument.name, argument.type, What::argument, i,
           op.is_constant(i)
               ? ""
               : fmt::format("a forward formula reads '{0}_p' (the primal) or '{0}_t' (the tangent), not '{0}'", argument.name));
    define(scope, argument.name + "_p", argument.type, What::primal, i);
    define(scope, argument.name + "_t", argument.type, What::tangent, i);
    scope.asked[argument.name] = i;
  }
  define_results(scope, op);
  return scope;
}

Scope argument_scope(const Op& op, const Program& program) {
  Scope scope{program, {}, "", {}};
  const std::vector<Argument>& arguments = op.schema.arguments;
  for (size_t i = 0; i < arguments.size(); ++i) define(scope, arguments[i].name, arguments[i].type, What::argument, i);
  return scope;
}

}  // namespace opgen
