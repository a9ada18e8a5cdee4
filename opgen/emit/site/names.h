#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "opgen/ir/op.h"

namespace opgen::site {

/// The letters that an op's formulas use: x for self, ȳ for the gradient of result y, ẋ for the tangent of x.
class Letters {
 public:
  explicit Letters(const Op& op);

  /// `name` of an argument or a result, as it is written.
  std::string of(const std::string& name) const;
  /// What a formula reads, whole: x, \bar{y}, \dot{x}.
  std::string of(const Symbol& symbol) const;
  /// Letters that stand for longer names, in the order of the signature: (x, self).
  const std::vector<std::pair<std::string, std::string>>& legend() const { return legend_; }

 private:
  void choose(const std::string& name, const std::string& letter);

  const Op& op_;
  std::map<std::string, std::string> letters_;
  std::vector<std::pair<std::string, std::string>> legend_;
};

/// Text without characters that mean something to LaTeX, in formulas and within \text: start\_dim, 5\%.
std::string escape(const std::string& text);
/// An identifier: \mathit{start\_dim}, x_{1}, \varepsilon.
std::string identifier(const std::string& name);
/// \bar{x}, or \overline{\mathit{weight}} over what is wider than a letter.
std::string add_bar(const std::string& latex);
std::string add_dot(const std::string& latex);
/// \operatorname{name}.
std::string function_name(const std::string& name);

}  // namespace opgen::site
