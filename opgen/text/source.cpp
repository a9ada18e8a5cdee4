#include "opgen/text/source.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

namespace opgen {

const std::string FileName::kNone;

FileName::FileName(const std::string& name) {
  static std::set<std::string> names;
  if (!name.empty()) name_ = &*names.insert(name).first;
}

std::string Position::to_string() const { return fmt::format("{}:{}:{}", file.text(), line, column); }

std::string readable(const std::string& message) {
  constexpr size_t kLongest = 1000, kBegin = 700, kEnd = 200;
  const std::string text =
      message.size() <= kLongest ? message : message.substr(0, kBegin) + " [...] " + message.substr(message.size() - kEnd);
  std::string line;
  for (const char character : text) {
    if (character == '\n')
      line += "\\n";
    else if (character == '\t')
      line += "\\t";
    else if (static_cast<unsigned char>(character) < ' ' || character == '\x7f')
      line += fmt::format("\\x{:02x}", character);
    else
      line += character;
  }
  return line;
}

namespace {

/// Where the message begins, behind file:line:column.
size_t message_at(const std::string& problem) {
  for (size_t colon = problem.find(": "); colon != std::string::npos; colon = problem.find(": ", colon + 1)) {
    size_t at = colon;
    while (at > 0 && std::isdigit(static_cast<unsigned char>(problem[at - 1]))) --at;
    if (at < colon && at > 0 && problem[at - 1] == ':') return colon + 2;
  }
  return 0;
}

}  // namespace

Problem::Problem(const Position& at, const std::string& message)
    : std::runtime_error(at.to_string() + ": " + readable(message)), at_(at), message_(readable(message)) {}

void refuse(Problems& problems, const Position& at, const std::string& message) {
  problems.emplace_back(Problem(at, message).what());
}

Problems said_once(const Problems& problems) {
  std::map<std::string, int> times;
  for (const std::string& problem : problems) ++times[problem.substr(message_at(problem))];
  Problems once;
  for (const std::string& problem : problems) {
    int& count = times[problem.substr(message_at(problem))];
    if (count == 0) continue;  // it was said before
    once.push_back(count == 1 ? problem : fmt::format("{} (and at {} other places)", problem, count - 1));
    count = 0;
  }
  return once;
}

int report(const Problems& problems) {
  constexpr size_t kMost = 50;
  const Problems once = said_once(problems);
  for (size_t i = 0; i < std::min(once.size(), kMost); ++i) fmt::print(stderr, "{}\n", once[i]);
  if (once.size() > kMost) fmt::print(stderr, "opgen: and {} more\n", once.size() - kMost);
  return problems.empty() ? 0 : 1;
}

namespace {

/// How far a character of a value may stand behind the one before: further, it was written as an escape.
constexpr int kMaxGap = 1000;

bool is_blank(char character) { return character == ' ' || character == '\t' || character == '\n' || character == '\r'; }

}  // namespace

Text::Text(std::string value, const FileName& file, const std::vector<std::string>& lines, int line, int column)
    : value_(std::move(value)), file_(file) {
  // Quotes, block indicators and folded line ends are in the file but not in the value: skip what does not match.
  for (const char character : value_) {
    if (is_blank(character)) {
      marks_.push_back({line, column});
      continue;
    }
    int at_line = line, at_column = column;
    bool found = false;
    for (int gap = 0; gap < kMaxGap && at_line < static_cast<int>(lines.size()); ++gap) {
      const std::string& source = lines[at_line];
      if (at_column >= static_cast<int>(source.size())) {
        ++at_line;
        at_column = 0;
      } else if (source[at_column] == character) {
        found = true;
        break;
      } else {
        ++at_column;
      }
    }
    if (found) {
      line = at_line;
      column = at_column;
    }
    marks_.push_back({line, column});
    ++column;
  }
  marks_.push_back({line, column});
}

Text::Text(std::string value, const Position& at) : value_(std::move(value)), file_(at.file) {
  marks_.assign(value_.size() + 1, {at.line - 1, at.column - 1});
}

Position Text::at(size_t offset) const {
  if (marks_.empty()) return {file_, 1, 1};
  const Mark mark = marks_[std::min(offset, marks_.size() - 1)];
  return {file_, mark.line + 1, mark.column + 1};
}

}  // namespace opgen
