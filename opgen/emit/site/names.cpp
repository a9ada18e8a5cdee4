#include "opgen/emit/site/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <string_view>

namespace opgen::site {
namespace {

using What = Symbol::What;

/// Letters for names that occur in many signatures; the name itself where the letter is taken.
constexpr std::array<std::pair<const char*, const char*>, 19> kLetters = {{{"self", "x"},
                                                                           {"mat2", "z"},
                                                                           {"input", "x"},
                                                                           {"values", "x"},
                                                                           {"tensors", "x"},
                                                                           {"other", "z"},
                                                                           {"weight", "w"},
                                                                           {"bias", "b"},
                                                                           {"target", "t"},
                                                                           {"mask", "m"},
                                                                           {"condition", "c"},
                                                                           {"index", "i"},
                                                                           {"exponent", "p"},
                                                                           {"dim", "d"},
                                                                           {"ragged", "R"},
                                                                           {"result", "y"},
                                                                           {"grad_output", "g"},
                                                                           {"grad_grad", "h"},
                                                                           {"output", "y"}}};

const std::map<std::string, std::string> kGreek = {
    {"alpha", "\\alpha"}, {"beta", "\\beta"},     {"gamma", "\\gamma"}, {"delta", "\\delta"},       {"eps", "\\varepsilon"},
    {"theta", "\\theta"}, {"lambda", "\\lambda"}, {"mu", "\\mu"},       {"sigma", "\\sigma"},       {"rho", "\\rho"},
    {"tau", "\\tau"},     {"kappa", "\\kappa"},   {"nu", "\\nu"},       {"epsilon", "\\varepsilon"}};

/// Whether an accent fits over it: one letter, with an index or without.
bool is_letter(const std::string& latex) {
  return latex.size() == 1 || (latex[0] == '\\' && std::all_of(latex.begin() + 1, latex.end(), ::isalpha));
}

}  // namespace

std::string escape(const std::string& text) {
  static const std::map<char, const char*> kWords = {
      {'~', "\\text{\\textasciitilde}"}, {'^', "\\text{\\textasciicircum}"}, {'\\', "\\text{\\textbackslash}"}};
  std::string latex;
  for (const char character : text) {
    if (const auto word = kWords.find(character); word != kWords.end()) {
      latex += word->second;
      continue;
    }
    if (std::string_view("_%#&${}").find(character) != std::string_view::npos) latex += '\\';
    latex += character;
  }
  return latex;
}

std::string identifier(const std::string& name) {
  if (const auto greek = kGreek.find(name); greek != kGreek.end()) return greek->second;
  if (name.size() == 1) return name;
  const size_t digits = name.find_first_of("0123456789");
  if (digits == 1 && name.find_first_not_of("0123456789", digits) == std::string::npos)
    return fmt::format("{}_{{{}}}", name[0], name.substr(1));
  return fmt::format("\\mathit{{{}}}", escape(name));
}

std::string add_bar(const std::string& latex) { return (is_letter(latex) ? "\\bar{" : "\\overline{") + latex + "}"; }

std::string add_dot(const std::string& latex) { return fmt::format("\\dot{{{}}}", latex); }

std::string function_name(const std::string& name) { return fmt::format("\\operatorname{{{}}}", escape(name)); }

Letters::Letters(const Op& op) : op_(op) {
  std::vector<std::string> names;
  for (const Parameter& parameter : op.schema.parameters()) names.push_back(parameter.name);
  for (const Parameter& outcome : op.schema.outcomes())
    names.push_back(outcome.is_record() ? outcome.name : op.result_name(outcome.first));
  std::set<std::string> taken(names.begin(), names.end());
  for (const std::string& name : names) {
    const auto known = std::find_if(kLetters.begin(), kLetters.end(), [&](const auto& pair) { return pair.first == name; });
    const bool free = known != kLetters.end() && taken.insert(known->second).second;
    choose(name, free ? known->second : identifier(name));
  }
}

void Letters::choose(const std::string& name, const std::string& letter) {
  letters_[name] = letter;
  if (letter != identifier(name)) legend_.emplace_back(letter, name);
}

std::string Letters::of(const std::string& name) const {
  const size_t point = name.find('.');
  if (point != std::string::npos) return fmt::format("{}.{}", of(name.substr(0, point)), identifier(name.substr(point + 1)));
  const auto found = letters_.find(name);
  return found == letters_.end() ? identifier(name) : found->second;
}

std::string Letters::of(const Symbol& symbol) const {
  const auto argument = [&] { return of(op_.schema.arguments[symbol.index].label()); };
  const auto result = [&] {
    const Result& own = op_.schema.results[symbol.index];
    return of(own.path.empty() ? op_.result_name(symbol.index) : own.path);
  };
  switch (symbol.what) {
    case What::argument:
    case What::primal:
      return argument();
    case What::result:
      return result();
    case What::gradient:
    case What::gradients:
      return add_bar(result());
    case What::tangent:
      return add_dot(argument());
    case What::element:
      return "i";
    default:
      return of(symbol.path.empty() ? symbol.name : symbol.path);  // a let called result is one
  }
}

}  // namespace opgen::site
