#pragma once

#include <string>
#include <vector>

#include "opgen/emit/common/emitter.h"

namespace opgen::cpp {

/// The methods of one class, each a public function whose first parameter is the object: declarations, which stand in the class,
/// and definitions.
class Methods {
 public:
  explicit Methods(std::string type) : type_(std::move(type)) {}

  /// `parameters` are those of the function behind the first, with defaults and without. What a method `shows` of its object it
  /// shows of a temporary, whose handle it takes, by an overload of its own.
  void add(const Op& op, const std::string& result, const std::string& name, std::vector<std::string> with_defaults,
           std::vector<std::string> parameters, bool shows = false);
  /// Without parameters.
  void add_of_nothing(const std::string& result, const std::string& name);
  /// Deleted; the reason stands in the line that a compiler shows.
  void refuse(const Op& op, const std::string& result, const std::string& name, std::vector<std::string> parameters,
              const std::string& reason);

  bool empty() const { return declarations_.empty(); }
  std::string declarations() const;
  /// A source file that includes these headers.
  std::string definitions(const std::vector<std::string>& includes) const;

 private:
  void define(const std::string& result, const std::string& name, const std::vector<std::string>& parameters,
              const char* qualifiers = " const", const char* object = "*this");

  std::string type_, declarations_, definitions_;
};

/// The methods of Tensor.
void emit_methods(const Program& program, Files& files);

}  // namespace opgen::cpp
