#include "opgen/text/strings.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace opgen {
namespace {

/// Insertions, deletions, changes and swaps of neighbours that turn a into b.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> distance(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) distance[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) distance[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      distance[i][j] =
          std::min({distance[i - 1][j] + 1, distance[i][j - 1] + 1, distance[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        distance[i][j] = std::min(distance[i][j], distance[i - 2][j - 2] + 1);
    }
  }
  return distance[a.size()][b.size()];
}

}  // namespace

std::string nearest(std::string_view name, const std::vector<std::string>& candidates) {
  std::string best;
  size_t best_distance = std::max<size_t>(1, name.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    if (std::max(name.size(), candidate.size()) - std::min(name.size(), candidate.size()) >= best_distance) continue;
    const size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates) {
  const std::string best = nearest(name, candidates);
  return best.empty() ? "" : "; did you mean '" + best + "'?";
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> words = {""};
  for (const char character : text) {
    if (character == separator)
      words.emplace_back();
    else if (character != ' ' && character != '\n')
      words.back() += character;
  }
  return words;
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string joined;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) joined += separator;
    joined += parts[i];
  }
  return joined;
}

bool is_octal(std::string_view text) {
  if (!text.empty() && text[0] == '-') text.remove_prefix(1);
  return text.size() > 1 && text[0] == '0' && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::optional<int64_t> whole_number(std::string_view text) {
  if (is_octal(text)) return std::nullopt;
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [read, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && read == end ? std::optional(value) : std::nullopt;
}

std::string pascal_case(std::string_view name) {
  std::string result;
  bool upper = true;
  for (size_t i = 0; i < name.size(); ++i) {
    const char character = name[i];
    if (character == '_' && i + 1 == name.size()) {
      result += "InPlace";
    } else if (character == '_' && std::islower(static_cast<unsigned char>(name[i + 1]))) {
      upper = true;
    } else {
      result += upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(character))) : character;
      upper = false;
    }
  }
  return result;
}

std::string indent(std::string_view text, int spaces) {
  std::string result;
  bool line_start = true;
  for (const char character : text) {
    if (line_start && character != '\n') result.append(static_cast<size_t>(spaces), ' ');
    result += character;
    line_start = character == '\n';
  }
  return result;
}

std::string quote(std::string_view text) {
  std::string result = "\"";
  for (const char character : text) {
    if (character == '\n') {
      result += "\\n";
      continue;
    }
    if (character == '"' || character == '\\') result += '\\';
    result += character;
  }
  return result + "\"";
}

std::string wrap(std::string_view head, const std::vector<std::string>& parts, std::string_view tail) {
  constexpr size_t kColumns = 120;
  std::string line = std::string(head) + "(" + join(parts) + ")" + std::string(tail);
  if (line.size() <= kColumns) return line;
  const std::string margin(head.substr(head.rfind('\n') == std::string_view::npos ? 0 : head.rfind('\n') + 1).size() + 1, ' ');
  std::string result = std::string(head) + "(";
  size_t column = margin.size();
  for (size_t i = 0; i < parts.size(); ++i) {
    const size_t width = parts[i].size() + (i + 1 < parts.size() ? 1 : 1 + tail.size());
    if (i > 0 && column + 1 + width > kColumns) {
      result += "\n" + margin;
      column = margin.size();
    } else if (i > 0) {
      result += " ";
      ++column;
    }
    result += parts[i] + (i + 1 < parts.size() ? "," : "");
    column += parts[i].size() + 1;
  }
  return result + ")" + std::string(tail);
}

namespace {

std::string_view take_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  return line;
}

bool is_documentation(std::string_view line) {
  return line.substr(std::min(line.find_first_not_of(' '), line.size())).starts_with("///");
}

/// Whether two files are the same line by line, but for documentation.
bool same_code(std::string_view a, std::string_view b) {
  while (!a.empty() && !b.empty()) {
    const std::string_view x = take_line(a), y = take_line(b);
    if (x != y && !(is_documentation(x) && is_documentation(y))) return false;
  }
  return a.empty() && b.empty();
}

}  // namespace

bool write_if_changed(const std::string& path, const std::string& contents) {
  std::optional<std::filesystem::file_time_type> time;
  if (std::ifstream existing(path, std::ios::binary); existing) {
    std::ostringstream old;
    old << existing.rdbuf();
    if (old.str() == contents) return false;
    if (same_code(old.str(), contents)) time = std::filesystem::last_write_time(path);
  }
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << contents;
  file.flush();
  if (!file) throw std::runtime_error("cannot write " + path);
  file.close();
  if (time) std::filesystem::last_write_time(path, *time);
  return true;
}

}  // namespace opgen
