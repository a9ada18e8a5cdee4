#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "opgen/schema/schema.h"
#include "opgen/text/source.h"

namespace opgen::aten {

/// An entry of native_functions.yaml.
struct Function {
  enum class Kind {
    functional,
    in_place,      // name_(Tensor(a!) self, ...)
    out,           // writes keyword-only arguments that it returns
    mutable_args,  // writes other arguments
  };

  Schema schema;
  Position at;
  Kind kind = Kind::functional;
  std::vector<std::string> variants;                          // function, method
  std::vector<std::pair<std::string, std::string>> dispatch;  // dispatch key, kernel
  std::string structured_delegate;
  Position delegate_at;
  bool structured = false;
  std::vector<std::string> autogen;  // variants that exist without an entry
  std::vector<std::string> tags;

  /// add.Tensor.
  std::string full_name() const { return schema.overload.empty() ? schema.name : schema.name + "." + schema.overload; }
  /// Made of other functions: differentiated through them unless it has a record.
  bool is_composite() const;
  std::string result_name(size_t index) const { return schema.result_name(index); }
};

/// All of them, in the order of the file.
struct Functions {
  std::vector<std::unique_ptr<Function>> all;
  std::unordered_map<std::string, Function*> by_full_name;
  std::unordered_map<std::string, std::vector<Function*>> by_name;
  std::unordered_map<std::string, const Function*> by_autogen;  // which function is to have this variant
  std::vector<std::unique_ptr<Function>> generated;             // variants without an entry that have a record
  int entries = 0;                                              // of the file; those with a problem are not in `all`

  /// A variant without an entry, with the signature that its record gives.
  const Function* generate(const Schema& schema, const Position& at);
  const Function* find(const std::string& full_name) const;
  std::vector<std::string> full_names() const;
};

/// Reads native_functions.yaml; what is wrong goes to `problems`, and reading goes on with the next entry.
Functions read_functions(const std::string& path, const std::string& name, Problems& problems);

/// Whether two signatures take the same arguments, alias annotations apart; `why` says where they differ.
bool same_arguments(const Schema& a, const Schema& b, std::string& why);

}  // namespace opgen::aten
