#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "opgen/schema/home.h"
#include "opgen/text/source.h"

namespace opgen {

enum class Base {
  tensor,
  integer,
  floating,
  boolean,
  scalar,
  dtype,
  string,
  generator,
  ragged,
  plan,
  enumeration,
  record,
  foreign,
  none,
  tuple
};

/// `- enum: Reduction` of an entry file: a type of a few named values.
struct EnumType {
  std::string name;
  std::vector<std::string> values;
  std::string doc;
  Position at;
  std::string stem;  // of the entry file
  bool external = false;
  Home home;

  std::string cpp() const { return home.prefix() + name; }
  bool has(const std::string& value) const;
};

struct RecordType;

/// The type of an argument, a result or an expression.
struct Type {
  Base base = Base::none;
  bool optional = false;
  bool list = false;
  bool optional_elements = false;  // Tensor?[]
  int length = 0;                  // of int[2]; 0: any
  std::string foreign_name;        // ATen types that Deckle has no counterpart for: Layout, Device...
  std::vector<Type> elements;      // of a tuple
  std::shared_ptr<const EnumType> enumeration;
  std::shared_ptr<const RecordType> record;

  // What a type that an entry file declares has besides.
  const Position& declared_at() const;
  bool external() const;
  bool is(Base wanted) const { return base == wanted && !list; }
  bool is_list_of(Base wanted) const { return base == wanted && list; }
  bool is_tensor() const { return is(Base::tensor); }
  bool is_tensor_like() const { return base == Base::tensor; }
  bool is_number() const {
    return !list && !optional && (base == Base::integer || base == Base::floating || base == Base::scalar);
  }
  std::string to_string() const;
  friend bool operator==(const Type&, const Type&) = default;
};

/// `(a!)`, `(a)`, `(a|b)`, `(a -> *)`.
struct Alias {
  std::string before;
  std::string after;  // "" unless the annotation has an arrow
  bool written = false;
};

struct Argument {
  Type type;
  std::string name;
  std::optional<std::string> default_value;  // as written in the schema
  bool keyword_only = false;
  std::optional<Alias> alias;
  Position at;
  std::string path;  // x.q, of a field of a record; "": the name

  /// As entries write it.
  const std::string& label() const { return path.empty() ? name : path; }
};

/// `- record: AttentionInputs` of an entry file: fields that go together.
struct RecordType {
  std::string name;
  std::vector<Argument> fields;
  std::string doc;
  Position at;
  std::string stem;  // of the entry file
  bool external = false;
  Home home;

  std::string cpp() const { return home.prefix() + name; }
};

/// An argument or a result that is a record: its fields are arguments or results themselves, `x_q` and so on, from `first` on.
struct Group {
  std::string name;
  Type type;
  size_t first = 0;
  Position at;

  size_t count() const { return type.record->fields.size(); }
};

/// What a call is given, or gives: one argument or result, or a record of several.
struct Parameter {
  std::string name;
  Type type;
  size_t first = 0;
  size_t count = 1;
  bool is_record() const { return type.base == Base::record; }
};

struct Result {
  Type type;
  std::string name;  // "" if the schema names none
  std::optional<Alias> alias;
  std::string path;  // y.out, of a field of a record; "": the name
};

/// name.overload(arguments) -> results
struct Schema {
  std::string name;
  std::string overload;
  std::vector<Argument> arguments;  // the fields of records one by one
  std::vector<Result> results;
  std::vector<Group> groups;  // of arguments
  std::vector<Group> result_groups;

  /// add.Tensor -> add_Tensor: unique among all schemas, an identifier.
  std::string unique_name() const { return overload.empty() ? name : name + "_" + overload; }
  const Argument* find(const std::string& argument) const;
  /// The name under which formulas know result `index`: its own unless an argument has it; resultN serves too.
  std::string result_name(size_t index) const;
  const Group* find_group(const std::string& record) const;
  /// Arguments and results as they are written, records whole.
  std::vector<Parameter> parameters() const;
  std::vector<Parameter> outcomes() const;
  std::string to_string() const;
};

/// Types that entry files declare, by name.
using DeclaredTypes = std::map<std::string, Type>;

/// Parses a schema in the ATen dialect; throws Problem.
Schema parse_schema(const Text& text, const DeclaredTypes& declared = {});

/// The fields of a record: `Tensor q, Tensor? bias, float scale=1`.
std::vector<Argument> parse_fields(const Text& text, const DeclaredTypes& declared);

/// Names of types that need no declaration: Tensor, int ...
std::vector<std::string> built_in_types();

}  // namespace opgen
