#include "opgen/emit/cpp/methods.h"

#include <fmt/format.h>

#include <algorithm>

#include "opgen/analyze/views.h"
#include "opgen/emit/cpp/method_types.h"
#include "opgen/emit/cpp/options.h"
#include "opgen/emit/cpp/signature.h"
#include "opgen/emit/cpp/types.h"
#include "opgen/text/strings.h"

namespace opgen::cpp {
namespace {

const char* const kHead = "// Generated from the entries with `variants: [method]`; change the entries, not this file.\n";

/// In a class that is read before options and generators are declared, `const struct SortOptions& options`.
std::string declared_here(const Op& op, const std::string& parameter) {
  if (op.has_options() && parameter.rfind("const " + options_name(op), 0) == 0) return "const struct" + parameter.substr(5);
  return parameter.rfind("Generator*", 0) == 0 ? "class " + parameter : parameter;
}

/// A list of integers alone may be written without braces: permute(1, 0).
bool takes_integers_alone(const Op& op, const std::vector<std::string>& parameters) {
  return parameters.size() == 1 && op.schema.arguments[1].type.is_list_of(Base::integer) && !op.schema.arguments[1].type.optional;
}

}  // namespace

void Methods::add(const Op& op, const std::string& result, const std::string& name, std::vector<std::string> with_defaults,
                  std::vector<std::string> parameters, bool shows) {
  std::string declared;
  if (op.has_options()) {  // their type is not complete in the class, so that they have no default there
    std::vector<std::string> first(with_defaults.begin(), with_defaults.end() - 1);
    declarations_ += wrap(result + " " + name, first, " const;\n");
    define(result, name, {parameters.begin(), parameters.end() - 1});
    const auto required = static_cast<std::ptrdiff_t>(required_before_options(with_defaults));
    if (static_cast<size_t>(required) + 1 < parameters.size()) {
      std::vector<std::string> alone(parameters.begin(), parameters.begin() + required);
      alone.push_back(parameters.back());
      define(result, name, alone);
      for (std::string& parameter : alone) parameter = declared_here(op, parameter);
      declarations_ += wrap(result + " " + name, alone, " const;\n");
    }
    with_defaults = parameters;
  }
  for (std::string& parameter : with_defaults) parameter = declared_here(op, parameter);
  const bool alone = takes_integers_alone(op, parameters);
  const auto overload = [&](const std::string& qualifiers, const char* object, const char* call) {
    declarations_ += wrap(result + " " + name, with_defaults, qualifiers + ";\n");
    define(result, name, parameters, qualifiers.c_str(), object);
    if (alone)
      declarations_ += fmt::format(
          "template <Integer... I>\nrequires(sizeof...(I) > 1) {0} {1}(I... {2}){3} {{\n"
          "  return {4}{1}({{{2}...}});\n}}\n",
          result, name, name_of(parameters[0]), qualifiers, call);
  };
  overload(shows ? " const&" : " const", "*this", "");
  if (shows) overload(" &&", "std::move(*this)", "std::move(*this).");
  if (parameters.empty() || parameters.back() != "BoolArg keepdim") return;
  parameters.back() = "KeepdimByName";
  declarations_ += wrap(result + " " + name, parameters, " const = delete;  // keepdim has no name: x.sum(0, true)\n");
}

void Methods::add_of_nothing(const std::string& result, const std::string& name) {
  declarations_ += fmt::format("{} {}() const;\n", result, name);
  define(result, name, {});
}

void Methods::refuse(const Op& op, const std::string& result, const std::string& name, std::vector<std::string> parameters,
                     const std::string& reason) {
  if (op.has_options()) parameters.pop_back();
  for (std::string& parameter : parameters) parameter = declared_here(op, parameter);
  declarations_ += fmt::format("{} {}({}) const = delete;  // {}\n", result, name, join(parameters), reason);
}

void Methods::define(const std::string& result, const std::string& name, const std::vector<std::string>& parameters,
                     const char* qualifiers, const char* object) {
  std::vector<std::string> arguments = {object};
  for (const std::string& parameter : parameters) arguments.push_back(name_of(parameter));
  definitions_ += one_line_or_block(wrap(result + " " + type_ + "::" + name, parameters, qualifiers),
                                    wrap("return deckle::" + name, arguments, ";"));
}

std::string Methods::declarations() const { return kHead + declarations_; }

std::string Methods::definitions(const std::vector<std::string>& includes) const {
  std::string text = kHead;
  for (const std::string& include : includes) text += fmt::format("#include \"{}\"\n", include);
  return text + "\nnamespace deckle {\n\n" + definitions_ + "\n}  // namespace deckle\n";
}

void emit_methods(const Program& program, Files& files) {
  Methods methods("Tensor");
  std::vector<std::string> includes = {"deckle/core/generator.h"};
  for (const Stem& stem : stems_of(program, {})) {
    bool used = false;
    for (const Op* op : stem.ops) {
      if (!op->method) continue;
      used = true;
      const auto behind_self = [&](bool defaults) {
        std::vector<std::string> parts = public_parameters(*op, defaults);
        parts.erase(parts.begin());
        return parts;
      };
      methods.add(*op, public_return_type(*op), op->name(), behind_self(true), behind_self(false), shows_self(*op));
      if (op->inplace) methods.add(*op, "Tensor", variant_name(*op, Variant::inplace), behind_self(true), behind_self(false));
    }
    if (used) includes.push_back("deckle/ops/generated/" + stem.name + ".h");
  }
  if (methods.empty()) return;
  emit_method_types(program, files);
  std::sort(includes.begin(), includes.end());
  files.add("deckle/core/generated/tensor_methods.h", methods.declarations(), "the methods of Tensor");
  files.add("deckle/ops/generated/tensor_methods.cpp", methods.definitions(includes), "the methods of Tensor");
}

}  // namespace opgen::cpp
