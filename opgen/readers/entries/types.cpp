#include "opgen/readers/entries/types.h"

#include <fmt/format.h>

#include <algorithm>

#include "opgen/schema/identifiers.h"
#include "opgen/text/strings.h"

namespace opgen {
namespace {

/// The name of a new type.
std::string type_name(const YamlFile& file, const Tree& node, const std::string& field, const Library& library) {
  const std::string name = file.text(node, field).value();
  const std::vector<std::string> built_in = built_in_types();
  if (std::find(built_in.begin(), built_in.end(), name) != built_in.end())
    file.fail(node, fmt::format("'{}' is a type already: choose another name", name));
  if (const std::string why = why_not_a_type(name); !why.empty()) file.fail(node, why);
  if (const auto other = library.types.find(name); other != library.types.end())
    file.fail(node, fmt::format("the type '{}' stands twice; the first is at {}", name, other->second.declared_at().to_string()));
  return name;
}

std::string doc_of(const YamlFile& file, const Tree& node, const std::string& name, bool external) {
  if (node["doc"]) return file.sentence(node["doc"], "doc");
  if (!external) file.fail(node, fmt::format("the type '{}' has no 'doc:': one sentence that says what it is", name));
  return "";
}

/// An enum or a record (`field`) with what both have.
template <typename Declared>
std::shared_ptr<Declared> declared_type(const YamlFile& file, const Tree& node, const std::string& field, const EntryInput& input,
                                        const std::string& stem, const Library& library) {
  auto declared = std::make_shared<Declared>();
  declared->name = type_name(file, node[field], field, library);
  declared->at = node[field].at();
  declared->doc = doc_of(file, node, declared->name, input.external);
  declared->stem = stem;
  declared->external = input.external;
  declared->home = input.home;
  return declared;
}

void load_enum(const YamlFile& file, const Tree& node, const EntryInput& input, const std::string& stem, Library& library) {
  file.check_keys(node, "an enum", {"enum", "doc", "values"});
  auto declared = declared_type<EnumType>(file, node, "enum", input, stem, library);
  if (!node["values"].is_list() || node["values"].size() == 0)
    file.fail(node["values"] ? node["values"] : node,
              fmt::format("'{}' wants its values: 'values: [first, second]'", declared->name));
  for (const Branch& branch : node["values"].branches()) {
    const std::string value = file.text(branch.value, "values").value();
    if (const std::string why = why_not_a_name(value); !why.empty()) file.fail(branch.value, why);
    if (declared->has(value)) file.fail(branch.value, fmt::format("'{}' has the value '{}' twice", declared->name, value));
    declared->values.push_back(value);
  }
  Type type;
  type.base = Base::enumeration;
  type.enumeration = declared;
  library.types.emplace(declared->name, type);
  library.enums.push_back(std::move(declared));
}

void check_field(const std::string& record, const Argument& field) {
  const Type& type = field.type;
  if (const std::string why = why_not_a_name(field.name); !why.empty()) throw Problem(field.at, why);
  const bool plain = type.is_tensor() || type.is_number() || type.is(Base::integer) || type.is(Base::floating) ||
                     type.is(Base::boolean) || type.is(Base::dtype) || type.is(Base::enumeration);
  if (!plain || field.alias)
    throw Problem(field.at, fmt::format("a field is a Tensor, a number, a bool, a dtype or an enum, and '{}' of {} is {}",
                                        field.name, record, type.to_string()));
}

void load_record(const YamlFile& file, const Tree& node, const EntryInput& input, const std::string& stem, Library& library) {
  file.check_keys(node, "a record", {"record", "doc", "fields"});
  auto declared = declared_type<RecordType>(file, node, "record", input, stem, library);
  if (!node["fields"])
    file.fail(node, fmt::format("'{}' wants its fields: 'fields: Tensor first, Tensor? second, float third=1'", declared->name));
  declared->fields = parse_fields(file.text(node["fields"], "fields"), library.types);
  for (const Argument& field : declared->fields) check_field(declared->name, field);
  if (declared->fields.size() < 2)
    file.fail(node["fields"], fmt::format("'{}' has one field: an argument of that type says the same", declared->name));
  Type type;
  type.base = Base::record;
  type.record = declared;
  library.types.emplace(declared->name, type);
  library.records.push_back(std::move(declared));
}

}  // namespace

Item item_of(const Tree& node) {
  return node.is_map() && node["enum"] ? Item::enumeration : node.is_map() && node["record"] ? Item::record : Item::op;
}

void load_type(const YamlFile& file, const Tree& node, const EntryInput& input, const std::string& stem, Library& library) {
  (item_of(node) == Item::enumeration ? load_enum : load_record)(file, node, input, stem, library);
}

}  // namespace opgen
