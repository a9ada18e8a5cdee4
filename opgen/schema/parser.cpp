#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <set>

#include "opgen/schema/scanner.h"
#include "opgen/schema/schema.h"
#include "opgen/text/strings.h"

namespace opgen {
namespace {

struct NamedBase {
  const char* name;
  Base base;
};

constexpr std::array kBases = {
    NamedBase{"Tensor", Base::tensor},    NamedBase{"int", Base::integer},  NamedBase{"SymInt", Base::integer},
    NamedBase{"float", Base::floating},   NamedBase{"bool", Base::boolean}, NamedBase{"Scalar", Base::scalar},
    NamedBase{"ScalarType", Base::dtype}, NamedBase{"str", Base::string},   NamedBase{"Generator", Base::generator},
    NamedBase{"Ragged", Base::ragged},    NamedBase{"Plan", Base::plan},
};
constexpr std::array kForeign = {
    "Layout",    "Device",        "MemoryFormat",   "Dimname",           "Storage",
    "Stream",    "QScheme",       "DeviceIndex",    "ConstQuantizerPtr", "SymBool",
    "DimVector", "TensorOptions", "TensorGeometry", "TensorSizes",       "__torch__.torch.classes.c10d.ProcessGroup"};

constexpr size_t kMost = 200;

class Parser : private Scanner {
 public:
  Parser(const Text& text, const DeclaredTypes& declared) : Scanner(text), declared_(declared) {}

  Schema schema() {
    Schema schema;
    schema.name = word("the op's name");
    if (take('.')) schema.overload = word("an overload name after '.'");
    expect('(', "to open the arguments");
    arguments(schema);
    skip_blanks();
    if (!take("->")) fail("expected '->' and the results, e.g. '-> Tensor'");
    results(schema);
    skip_blanks();
    if (offset_ < source_.size()) fail(fmt::format("unexpected '{}' after the results", source_.substr(offset_)));
    return schema;
  }

  std::vector<Argument> fields() {
    std::vector<Argument> fields;
    do {
      skip_blanks();
      const size_t start = offset_;
      Argument field = one_argument(false);
      for (const Argument& other : fields) {
        if (other.name == field.name) fail_at(start, fmt::format("two fields are named '{}'", field.name));
      }
      fields.push_back(std::move(field));
    } while (take(','));
    skip_blanks();
    if (offset_ < source_.size()) fail(fmt::format("unexpected '{}' after the fields", source_.substr(offset_)));
    return fields;
  }

 private:
  void arguments(Schema& schema) {
    bool keyword_only = false;
    bool defaults = false;
    std::set<std::string> names;
    if (take(')')) return;
    while (true) {
      skip_blanks();
      const size_t start = offset_;
      if (take('*')) {
        if (keyword_only) fail_at(start, "'*' may stand only once among the arguments");
        keyword_only = true;
        defaults = false;
      } else {
        Argument argument = one_argument(keyword_only);
        if (!names.insert(argument.name).second) fail_at(start, fmt::format("two arguments are named '{}'", argument.name));
        if (argument.type.base == Base::record) {
          require_whole(argument.type, argument.alias.has_value(), start);
          if (argument.default_value || keyword_only)
            fail_at(start, fmt::format("the record '{}' stands before the '*' and has no default: its fields may have some",
                                       argument.name));
          for (const Argument& field : fields_of(schema, argument)) {
            if (!names.insert(field.name).second)
              fail_at(start, fmt::format("two arguments are named '{}' in the generated code", field.name));
          }
          if (take(')')) return;
          expect(',', "or ')' after an argument");
          continue;
        }
        if (defaults && !keyword_only && !argument.default_value)
          fail_at(start, fmt::format("argument '{}' needs a default, because one before it has one", argument.name));
        defaults = defaults || argument.default_value.has_value();
        if (schema.arguments.size() == kMost) fail_at(start, fmt::format("an op has {} arguments at most", kMost));
        schema.arguments.push_back(std::move(argument));
      }
      if (take(')')) return;
      expect(',', "or ')' after an argument");
    }
  }

  void require_whole(const Type& type, bool alias, size_t at) const {
    if (type.list)
      fail_at(at, fmt::format("lists of {} do not exist: give each record an argument of its own", type.record->name));
    if (alias) fail_at(at, fmt::format("a record shares no memory: write '{}' without an alias set", type.record->name));
  }

  /// The fields of a record as arguments.
  std::vector<Argument> fields_of(Schema& schema, const Argument& record) const {
    schema.groups.push_back({record.name, record.type, schema.arguments.size(), record.at});
    std::vector<Argument> fields;
    for (Argument field : record.type.record->fields) {
      if (record.type.optional && !field.type.is_tensor())
        throw Problem(record.at,
                      fmt::format("schema: '{}' is no type: a record that may be missing has tensors alone, and '{}' is {}",
                                  record.type.to_string(), field.name, field.type.to_string()));
      field.type.optional = field.type.optional || record.type.optional;
      field.path = record.name + "." + field.name;
      field.name = record.name + "_" + field.name;
      field.at = record.at;
      fields.push_back(field);
    }
    schema.arguments.insert(schema.arguments.end(), fields.begin(), fields.end());
    return fields;
  }

  Argument one_argument(bool keyword_only) {
    Argument argument;
    skip_blanks();
    argument.at = text_.at(offset_);
    argument.keyword_only = keyword_only;
    argument.type = type(argument.alias);
    argument.name = word(fmt::format("a name after the type {}", argument.type.to_string()));
    if (take('=')) argument.default_value = default_value();
    return argument;
  }

  std::string default_value() {
    skip_blanks();
    const size_t start = offset_;
    int depth = 0;
    char quote = 0;
    while (offset_ < source_.size()) {
      const char character = source_[offset_];
      if (quote) {
        if (character == '\\' && offset_ + 1 < source_.size()) ++offset_;
        if (character == quote) quote = 0;
      } else if (character == '\'' || character == '"') {
        quote = character;
      } else if (character == '[') {
        ++depth;
      } else if (character == ']') {
        --depth;
      } else if (depth == 0 && (character == ',' || character == ')')) {
        break;
      }
      ++offset_;
    }
    std::string value = source_.substr(start, offset_ - start);
    while (!value.empty() && value.back() == ' ') value.pop_back();
    if (value.empty()) fail_at(start, "expected a default value after '='");
    return value;
  }

  Type type(std::optional<Alias>& alias) {
    skip_blanks();
    const size_t start = offset_;
    std::string name = word("a type");
    while (take_adjacent('.')) name += "." + word("a type");
    Type type;
    bool known = false;
    for (const NamedBase& candidate : kBases) {
      if (name == candidate.name) {
        type.base = candidate.base;
        known = true;
      }
    }
    for (const char* foreign : kForeign) {
      if (name == foreign) {
        type.base = Base::foreign;
        type.foreign_name = name;
        known = true;
      }
    }
    if (const auto declared = declared_.find(name); declared != declared_.end()) {
      type = declared->second;
      known = true;
    }
    if (!known) {
      std::vector<std::string> names = built_in_types();
      for (const auto& [declared, ignored] : declared_) names.push_back(declared);
      fail_at(start, fmt::format("no type is named '{}'{}", name, did_you_mean(name, names)));
    }
    if (take_adjacent('(')) alias = alias_annotation();
    while (true) {
      if (take_adjacent('?')) {
        if (type.optional) fail("'?' may stand only once");
        type.optional = true;
      } else if (take_adjacent('[')) {
        if (type.list) fail("lists of lists do not exist");
        type.optional_elements = type.optional;
        type.optional = false;
        type.list = true;
        skip_blanks();
        const size_t number = offset_;
        if (offset_ < source_.size() && source_[offset_] == '-') ++offset_;
        while (offset_ < source_.size() && std::isdigit(static_cast<unsigned char>(source_[offset_]))) ++offset_;
        if (offset_ > number) {
          const std::string text = source_.substr(number, offset_ - number);
          const std::optional<int64_t> length = whole_number(text);
          if (!length || *length < 1 || *length > 1000)
            fail_at(number, fmt::format("the length of a list is 1 to 1000, not {}", text));
          type.length = static_cast<int>(*length);
        }
        expect(']', "to close the list type");
      } else if (take_adjacent('(')) {
        alias = alias_annotation();
      } else {
        return type;
      }
    }
  }

  Alias alias_annotation() {
    Alias alias;
    alias.before = alias_set();
    if (take('!')) alias.written = true;
    if (take("->")) {
      alias.after = alias_set();
    }
    expect(')', "to close the alias annotation");
    return alias;
  }
  std::string alias_set() {
    if (take('*')) return "*";
    std::string set = word("an alias set such as 'a'");
    while (take('|')) set += "|" + word("an alias set such as 'a'");
    return set;
  }

  void results(Schema& schema) {
    if (take('(')) {
      if (take(')')) return;
      while (true) {
        one_result(schema);
        if (take(')')) return;
        expect(',', "or ')' after a result");
      }
    }
    one_result(schema);
  }
  void one_result(Schema& schema) {
    skip_blanks();
    const size_t start = offset_;
    if (schema.results.size() == kMost) fail_at(start, fmt::format("an op has {} results at most", kMost));
    Result result;
    result.type = type(result.alias);
    skip_blanks();
    if (offset_ < source_.size() && is_word(source_[offset_])) result.name = word("a result name");
    if (result.type.base != Base::record) {
      schema.results.push_back(std::move(result));
      return;
    }
    require_whole(result.type, result.alias.has_value(), start);
    if (result.name.empty() || result.type.optional)
      fail_at(start, fmt::format("a result that is a record is always there and has a name: '{} y'", result.type.record->name));
    schema.result_groups.push_back({result.name, result.type, schema.results.size(), text_.at(start)});
    for (const Argument& field : result.type.record->fields) {
      if (!field.type.is_tensor())
        fail_at(start, fmt::format("a result is made of tensors, and the field '{}' of {} is {}", field.name,
                                   result.type.record->name, field.type.to_string()));
      schema.results.push_back({field.type, result.name + "_" + field.name, std::nullopt, result.name + "." + field.name});
    }
  }

  const DeclaredTypes& declared_;
};

}  // namespace

std::vector<std::string> built_in_types() {
  std::vector<std::string> names;
  for (const NamedBase& type : kBases) names.emplace_back(type.name);
  return names;
}

std::vector<Argument> parse_fields(const Text& text, const DeclaredTypes& declared) { return Parser(text, declared).fields(); }

Schema parse_schema(const Text& text, const DeclaredTypes& declared) { return Parser(text, declared).schema(); }

}  // namespace opgen
