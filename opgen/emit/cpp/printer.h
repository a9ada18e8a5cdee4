#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "opgen/analyze/uses.h"

namespace opgen::cpp {

/// How generated code reads symbols at one place.
struct Place {
  std::map<SymbolKey, std::string> reads;
  std::map<std::pair<SymbolKey, Symbol::How>, std::string> parts;  // fields that hold only the sizes, the dtype ...
                                                                   // and elements of lists
  std::map<SymbolKey, std::string> operand_sizes;                  // fields that sum_to reads
  std::map<size_t, std::string> asked;                             // wants(x) or has_t(x), by input
  std::set<SymbolKey> repeated;                                    // whose rows may repeat: read as RepeatedRows
  std::map<size_t, std::string> records;                           // arguments that are records, by their first field
  std::set<SymbolKey> nested;                                      // read as nested tensors
  std::set<std::string> shadowing;                                 // identifiers around it that would hide functions

  void read(Symbol::What what, size_t index, std::string cpp) { reads[{what, index}] = std::move(cpp); }
};

/// An expression and how tightly it binds, as in formula/expr.h.
struct Printed {
  std::string text;
  int precedence = 8;
};

/// Terms as C++ expressions: the only one that knows how these are spelled.
class Printer {
 public:
  explicit Printer(const Place& place) : place_(place) {}

  std::string operator()(const Term& term) const { return print(term).text; }
  std::string operator()(const TermPtr& term) const { return print(*term).text; }
  /// As an operand of what takes rows that repeat.
  std::string operand(const Term& term) const;

  /// What a function returns.
  std::string print_result(const Term& term) const {
    return term.type.is_list_of(Base::tensor) ? tensors(term) : print(term).text;
  }
  /// In front of '?'.
  std::string condition(const Term& term) const { return within(term, 1); }

  /// `const auto a = ...;`, one per let. Lets become names of `place`.
  static std::vector<std::string> declare(const std::vector<Let>& lets, Place& place);

 private:
  bool repeats(const Term& term) const;
  bool is_nested(const Term& term) const;
  bool on_rows(const Term& term) const;
  std::string operand_sizes(const Term& sizes) const;
  std::string tensors(const Term& term) const;
  std::string declaration(const Let& let) const;
  std::string owning_list(const Term& list) const;
  Printed print(const Term& term) const;
  Printed literal(const Term& term) const;
  /// A branch of a condition, as a plain number: both branches must have one type.
  std::string branch(const Term& term, int at_least) const;
  Printed operation(const Term& term) const;
  Printed property(const Term& term) const;
  Printed conversion(const Term& term) const;
  Printed call(const Term& term) const;
  Printed record(const Term& term) const;
  std::string within(const Term& term, int at_least) const;
  std::vector<std::string> all(const std::vector<TermPtr>& terms) const;

  const Place& place_;
};

/// A condition on what a call knows, where arguments and results have their own names.
std::string condition_at_call(const Op& op, const TermPtr& condition);

/// A list in braces as a value of its type: Ints{1, 2}.
std::string list_literal(const std::string& braces, const Type& type);

}  // namespace opgen::cpp
