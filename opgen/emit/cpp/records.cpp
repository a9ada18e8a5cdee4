#include "opgen/emit/cpp/records.h"

#include <fmt/format.h>

#include "opgen/emit/cpp/types.h"
#include "opgen/text/strings.h"

namespace opgen::cpp {
namespace {

template <typename Slots>
std::string unpack(const Slots& slots, const std::vector<Group>& groups) {
  std::string text;
  for (const Group& group : groups) {
    std::vector<std::string> names;
    for (size_t i = group.first; i < group.first + group.count(); ++i) names.push_back(slots[i].name);
    text += "const auto& [" + join(names) + "] = " + group.name + ";\n";
  }
  return text;
}

}  // namespace

std::string print_record(const RecordType& record) {
  std::string fields;
  for (const Argument& field : record.fields)
    fields += fmt::format("  {} {}{};\n", owned_type(field.type), field.name,
                          field.default_value           ? " = " + default_value(field)
                          : field.type.optional         ? " = {}"
                          : field.type.is(Base::scalar) ? " = 0"
                                                        : "");
  return fmt::format("/// {}\nstruct {} {{\n{}}};\n\n", record.doc, record.name, fields);
}

std::string view_name(const RecordType& record) { return record.cpp() + "View"; }

std::string print_view_record(const RecordType& record) {
  std::string fields;
  for (const Argument& field : record.fields) fields += fmt::format("  {} {};\n", kernel_field_type(field.type), field.name);
  return fmt::format("/// {0} as kernels see it.\nstruct {0}View {{\n{1}}};\n\n", record.name, fields);
}

std::string unpack_records(const Op& op) { return unpack(op.schema.arguments, op.schema.groups); }

std::string unpack_results(const Op& op) { return unpack(op.schema.results, op.schema.result_groups); }

std::vector<std::string> whole(const Op& op, const std::vector<std::string>& texts) {
  std::vector<std::string> parts;
  for (const Parameter& parameter : op.schema.parameters()) {
    if (!parameter.is_record()) {
      parts.push_back(texts[parameter.first]);
      continue;
    }
    const RecordType& record = *parameter.type.record;
    std::vector<std::string> fields;
    for (size_t i = 0; i < parameter.count; ++i) {
      const std::string& text = texts[parameter.first + i];
      if (!text.empty()) fields.push_back(fmt::format(".{} = {}", record.fields[i].name, text));
    }
    parts.push_back(record.cpp() + "{" + join(fields) + "}");
  }
  return parts;
}

Parts take_apart(const std::vector<Target>& targets, const std::string& value, const std::function<std::string(size_t)>& name,
                 const char* declaration) {
  Parts parts;
  std::vector<std::string> whole;
  std::string fields_of_records;
  const auto fields = [&](const Target& target) {
    std::vector<std::string> names;
    for (size_t i = 0; i < target.slots.size(); ++i) {
      if (target.slots[i]) parts.names.emplace_back(*target.slots[i], name(*target.slots[i]));
      names.push_back(target.slots[i] ? parts.names.back().second : fmt::format("{}_field{}", target.name, i));
    }
    return join(names);
  };
  if (targets.size() == 1) {
    parts.statements = fmt::format("{} [{}] = {};", declaration, fields(targets[0]), value);
    return parts;
  }
  for (const Target& target : targets) {
    if (!target.is_record()) {
      parts.names.emplace_back(*target.slots[0], name(*target.slots[0]));
      whole.push_back(parts.names.back().second);
      continue;
    }
    whole.push_back(target.name + "_value");
    fields_of_records += fmt::format("\nconst auto& [{}] = {};", fields(target), whole.back());
  }
  parts.statements = fmt::format("{} [{}] = {};{}", declaration, join(whole), value, fields_of_records);
  return parts;
}

std::string result_value(const Op& op) {
  std::vector<std::string> values;
  for (const Parameter& outcome : op.schema.outcomes()) {
    if (!outcome.is_record()) {
      values.push_back(op.result_name(outcome.first));
      continue;
    }
    std::vector<std::string> fields;
    for (size_t i = 0; i < outcome.count; ++i) fields.push_back(op.result_name(outcome.first + i));
    values.push_back(outcome.type.record->cpp() + "{" + join(fields) + "}");
  }
  return values.size() == 1 ? values[0] : "{" + join(values) + "}";
}

}  // namespace opgen::cpp
