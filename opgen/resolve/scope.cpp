#include "opgen/resolve/scope.h"

#include <fmt/format.h>

#include "opgen/ir/build.h"

namespace opgen {
namespace {

using What = Symbol::What;

void define(Scope& scope, const std::string& name, Type type, What what, size_t index, std::string refuse = "") {
  scope.names[name] = {std::move(type), {what, index, name, Symbol::How::whole}, std::move(refuse), {}};
}

/// A record whose fields mean what `field` makes of an argument or result.
template <typename Slots, typename Field>
void define_record(Scope& scope, const std::string& name, const Parameter& record, const Slots& slots, const Field& field,
                   std::string refuse = "") {
  Meaning meaning{record.type, {}, std::move(refuse), {}};
  for (size_t i = record.first; i < record.first + record.count; ++i) meaning.fields.push_back(field(i, slots[i]));
  scope.names[name] = std::move(meaning);
}

Meaning slot(What what, size_t index, const Type& type, const std::string& name, const std::string& path) {
  return {type, {what, index, name, Symbol::How::whole, path}, "", {}};
}

void define_arguments(Scope& scope, const Op& op) {
  for (const Parameter& parameter : op.schema.parameters()) {
    if (!parameter.is_record()) {
      define(scope, parameter.name, parameter.type, What::argument, parameter.first);
      continue;
    }
    define_record(scope, parameter.name, parameter, op.schema.arguments,
                  [](size_t i, const Argument& field) { return slot(What::argument, i, field.type, field.name, field.path); });
  }
}

void define_results(Scope& scope, const Op& op) {
  for (const Parameter& outcome : op.schema.outcomes()) {
    if (!outcome.is_record())
      define(scope, op.result_name(outcome.first), outcome.type, What::result, outcome.first);
    else
      define_record(scope, outcome.name, outcome, op.schema.results,
                    [](size_t i, const Result& field) { return slot(What::result, i, field.type, field.name, field.path); });
  }
}

/// The gradients of a result that is a record, as such a record.
void define_gradients(Scope& scope, const std::string& name, const Parameter& outcome, const Op& op) {
  if (!outcome.is_record()) return define(scope, name, tensor_type(), What::gradient, outcome.first);
  define_record(scope, name, outcome, op.schema.results, [&](size_t i, const Result& field) {
    return slot(What::gradient, i, tensor_type(), "grad_" + field.name,
                name + "." + outcome.type.record->fields[i - outcome.first].name);
  });
}

/// x_p and x_t of a record, and x, which is neither.
void define_record_forward(Scope& scope, const Op& op, const Parameter& record) {
  const auto in = [&](What what, const char* suffix) {
    define_record(scope, record.name + suffix, record, op.schema.arguments, [&](size_t i, const Argument& field) {
      const bool tensor = field.type.is_tensor();
      return slot(tensor ? what : What::argument, i, field.type, field.name + (tensor ? suffix : ""), field.path);
    });
  };
  in(What::primal, "_p");
  in(What::tangent, "_t");
  define_record(
      scope, record.name, record, op.schema.arguments,
      [&](size_t i, const Argument& field) {
        Meaning meaning = slot(What::argument, i, field.type, field.name, field.path);
        const std::string own = record.type.record->fields[i - record.first].name;
        if (field.type.is_tensor() && !op.is_constant(i))
          meaning.refuse = fmt::format(
              "a forward formula reads '{0}_p.{1}' (the primal) or '{0}_t.{1}' (the tangent), not '{0}.{1}'", record.name, own);
        return meaning;
      },
      fmt::format("a forward formula reads '{0}_p' (the primals) or '{0}_t' (the tangents), not '{0}'", record.name));
}

}  // namespace

void Scope::define_element() { define(*this, "i", type_of(Base::integer), What::element, 0); }

Scope reverse_scope(const Op& op, const Program& program) {
  Scope scope{program, {}, "wants", {}};
  define_arguments(scope, op);
  define_results(scope, op);
  const std::vector<Result>& results = op.schema.results;
  const std::vector<Parameter> outcomes = op.schema.outcomes();
  const Type list = type_of(Base::tensor, true);
  if (results.size() == 1 && results[0].type.list) {
    define(scope, "grads", list, What::gradients, 0);
    define(scope, "grad", tensor_type(), What::gradient, 0, "the result is a list: its gradients are 'grads'");
    return scope;
  }
  if (outcomes.size() == 1 && outcomes[0].is_record()) {
    define_gradients(scope, "grads", outcomes[0], op);
    define_gradients(scope, "grad_" + outcomes[0].name, outcomes[0], op);
    return scope;
  }
  define(
      scope, "grad", tensor_type(), What::gradient, 0,
      !outcomes.empty() && outcomes[0].is_record() ? fmt::format("the gradients of '{0}' are 'grad_{0}'", outcomes[0].name) : "");
  if (outcomes.size() > 1)
    define(scope, "grads", list, What::gradients, 0,
           fmt::format("'grads' of several results is read one by one: grads[0] to grads[{}]", outcomes.size() - 1));
  for (size_t i = 0; i < outcomes.size(); ++i) {
    const std::string& name = outcomes[i].is_record() ? outcomes[i].name : results[outcomes[i].first].name;
    if (!name.empty()) define_gradients(scope, "grad_" + name, outcomes[i], op);
    if (outcomes.size() > 1) define_gradients(scope, fmt::format("grad{}", i), outcomes[i], op);
  }
  return scope;
}

Scope forward_scope(const Op& op, const Program& program) {
  Scope scope{program, {}, "has_t", {}};
  const std::vector<Argument>& arguments = op.schema.arguments;
  for (const Parameter& parameter : op.schema.parameters()) {
    if (parameter.is_record()) {
      define_record_forward(scope, op, parameter);
      for (size_t i = parameter.first; i < parameter.first + parameter.count; ++i) {
        if (arguments[i].type.is_tensor()) scope.asked[arguments[i].path] = i;
      }
      continue;
    }
    const size_t i = parameter.first;
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
  define_arguments(scope, op);
  return scope;
}

}  // namespace opgen
