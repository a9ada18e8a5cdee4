#pragma once

#include <string>
#include <utility>
#include <vector>

namespace opgen {

/// Writes JSON: objects, arrays and values in turn; the comma before a value is its business.
class JsonWriter {
 public:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  JsonWriter& key(const char* name);
  JsonWriter& value(const std::string& text);
  JsonWriter& number(int number);
  JsonWriter& boolean(bool yes);

  /// A key and its value.
  JsonWriter& text(const char* name, const std::string& text) { return key(name).value(text); }
  JsonWriter& flag(const char* name, bool yes) { return key(name).boolean(yes); }
  JsonWriter& list(const char* name, const std::vector<std::string>& values);

  std::string take() { return std::move(text_); }

 private:
  JsonWriter& raw(const std::string& text);
  void comma();

  std::string text_;
  bool first_ = true;
};

}  // namespace opgen
