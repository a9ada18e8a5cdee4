#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace opgen {

/// The name of an input file, which all places in it share.
class FileName {
 public:
  FileName() = default;
  FileName(const std::string& name);
  FileName(const char* name) : FileName(std::string(name)) {}

  const std::string& text() const { return *name_; }
  operator const std::string&() const { return *name_; }
  friend bool operator==(const FileName& a, const FileName& b) { return a.name_ == b.name_; }

 private:
  static const std::string kNone;
  const std::string* name_ = &kNone;
};

/// A place in an input file; lines and columns count from 1.
struct Position {
  FileName file;
  int line = 0;
  int column = 0;

  std::string to_string() const;
};

/// Something wrong in an input file: where, what, and what would be right, in one line.
class Problem : public std::runtime_error {
 public:
  Problem(const Position& at, const std::string& message);

  const Position& at() const { return at_; }
  const std::string& message() const { return message_; }

 private:
  Position at_;
  std::string message_;
};

/// Problems found so far; work goes on after each so that one run shows all of them.
using Problems = std::vector<std::string>;

void refuse(Problems& problems, const Position& at, const std::string& message);

/// Does a step that may throw Problem, which then is one more of `problems`; whether it threw none.
template <typename Step>
bool attempt(Problems& problems, const Step& step) {
  try {
    step();
    return true;
  } catch (const Problem& problem) {
    problems.emplace_back(problem.what());
    return false;
  }
}

/// Problems with one text in several places become the first of them, with their number: a missing thing is missed everywhere.
Problems said_once(const Problems& problems);

/// Prints problems to stderr, each once and the first fifty; the exit code, 1 with any.
int report(const Problems& problems);

/// A message on one line, as what it quotes may hold anything: control characters as escapes, what is far too long without its
/// middle.
std::string readable(const std::string& message);

/// A piece of text that remembers where each of its characters stands in the file it came from.
class Text {
 public:
  Text() = default;
  /// `value` as YAML read it, found again character by character in `lines` from (line, column) on, counted from 0.
  Text(std::string value, const FileName& file, const std::vector<std::string>& lines, int line, int column);
  /// Text that comes from no file: every character stands at `at`.
  Text(std::string value, const Position& at);

  const std::string& value() const { return value_; }
  bool empty() const { return value_.empty(); }
  Position at(size_t offset) const;

 private:
  struct Mark {
    int line;
    int column;
  };
  std::string value_;
  FileName file_;
  std::vector<Mark> marks_;  // one per character and one past the end
};

}  // namespace opgen
