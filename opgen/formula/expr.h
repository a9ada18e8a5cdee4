#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "opgen/text/source.h"

namespace opgen {

/// A formula that grew too deep or too large, perhaps by being differentiated.
class TooLarge : public Problem {
  using Problem::Problem;
};

struct Expr;
using ExprPtr = std::shared_ptr<const Expr>;

/// A node of a formula. Immutable, so trees share their parts. Trees that are too deep to be walked by recursion, or too large
/// to be written out where parts are shared, cannot be made: the constructor throws Problem.
struct Expr {
  static constexpr int kMaxDepth = 200;
  static constexpr int64_t kMaxParts = 10000;

  enum class Kind {
    number,       // text: as written
    string,       // text: without quotes
    name,         // text
    call,         // text(args)
    method,       // args[0].text(args[1..])
    member,       // args[0].text
    unary,        // text is - or !
    binary,       // text is the operator
    conditional,  // args[0] ? args[1] : args[2]
    tuple,
    list,
    index,  // args[0][args[1]]
  };

  Expr(Kind kind, std::string text, std::vector<ExprPtr> args, std::vector<std::string> keys, const Position& at);

  Kind kind;
  std::string text;
  std::vector<ExprPtr> args;
  std::vector<std::string> keys;  // per argument of a call: its name if it was given by name, else ""
  Position at;                    // that of the first part, where none is given
  int depth = 1;
  int64_t parts = 1;  // nodes, shared ones counted wherever they occur

  bool is(Kind wanted) const { return kind == wanted; }
  bool is_name(std::string_view name) const { return kind == Kind::name && text == name; }
  bool is_call(std::string_view name) const { return kind == Kind::call && text == name; }
};
using ExprKind = Expr::Kind;

/// A parsed formula: `let a = x, b = y in body`.
struct Formula {
  std::vector<std::pair<std::string, ExprPtr>> lets;
  ExprPtr body;
};

/// Parses a formula; throws Problem with the place of the first wrong token.
Formula parse_formula(const Text& text);

/// The formula as one tree: every `let` name replaced by what it stands for.
ExprPtr inline_lets(const Formula& formula);

ExprPtr make_expr(ExprKind kind, std::string text, std::vector<ExprPtr> args, const Position& at = {});

/// Fully parenthesised where needed, in the formula language; equal trees print equally.
std::string to_string(const ExprPtr& expr);

bool equal(const ExprPtr& a, const ExprPtr& b);

/// The tree with every node for which `replace` returns non-null replaced by it (outermost first).
ExprPtr rewrite(const ExprPtr& expr, const std::function<ExprPtr(const ExprPtr&)>& replace);

/// Names that occur free in `expr`, in order of first occurrence.
std::vector<std::string> names_in(const ExprPtr& expr);
bool mentions(const ExprPtr& expr, std::string_view name);

/// Binding strength of an operator, for parentheses; larger binds tighter.
int precedence(const Expr& expr);

}  // namespace opgen
