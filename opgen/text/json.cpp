#include "opgen/text/json.h"

#include <fmt/format.h>

#include <iterator>

namespace opgen {
namespace {

std::string quote_json(const std::string& text) {
  std::string result = "\"";
  for (const char character : text) {
    if (character == '"' || character == '\\') {
      result += '\\';
      result += character;
    } else if (static_cast<unsigned char>(character) < 0x20) {
      fmt::format_to(std::back_inserter(result), "\\u{:04x}", static_cast<unsigned>(character));
    } else {
      result += character;
    }
  }
  return result + '"';
}

}  // namespace

JsonWriter& JsonWriter::open(char bracket) {
  comma();
  text_ += bracket;
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  text_ += bracket;
  first_ = false;
  return *this;
}

JsonWriter& JsonWriter::key(const char* name) {
  comma();
  text_ += quote_json(name) + ":";
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::value(const std::string& text) { return raw(quote_json(text)); }
JsonWriter& JsonWriter::number(int number) { return raw(std::to_string(number)); }
JsonWriter& JsonWriter::boolean(bool yes) { return raw(yes ? "true" : "false"); }

JsonWriter& JsonWriter::list(const char* name, const std::vector<std::string>& values) {
  key(name).open('[');
  for (const std::string& one : values) value(one);
  return close(']');
}

JsonWriter& JsonWriter::raw(const std::string& text) {
  comma();
  text_ += text;
  return *this;
}

void JsonWriter::comma() {
  if (!first_) text_ += ',';
  first_ = false;
}

}  // namespace opgen
