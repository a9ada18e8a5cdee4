#include "opgen/emit/common/layout.h"

#include <algorithm>
#include <string_view>

#include "opgen/schema/identifiers.h"

namespace opgen {
namespace {

std::string folder_of(const Home& home) {
  std::string folder;
  for (size_t i = 0; i < home.space.size(); ++i) {
    if (home.space[i] == ':')
      folder += '/', ++i;
    else
      folder += home.space[i];
  }
  return folder + "/ops/";
}

bool in_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

}  // namespace

std::string ops_file(const Home& home, const std::string& file) {
  return (home.is_deckle() ? "deckle/ops/generated/" : folder_of(home)) + file;
}

std::string ops_header(const Home& home, const std::string& stem) { return ops_file(home, stem + ".h"); }

std::string kernels_header(const Home& home, const std::string& stem) {
  return ops_file(home, (home.is_deckle() ? "kernels_" : "kernels/") + stem + ".h");
}

std::string types_header_path(const Home& home, const std::string& stem) {
  return (home.is_deckle() ? "deckle/kernels/args/generated/" : folder_of(home) + "types/") + stem + ".h";
}

std::string nested_header(const Home& home, const std::string& stem) {
  return (home.is_deckle() ? "deckle/nested/generated/" : folder_of(home) + "nested/") + stem + ".h";
}

std::string nested_source(const Home& home, const std::string& stem) {
  return (home.is_deckle() ? "deckle/nested/generated/nested_" : folder_of(home) + "nested/") + stem + ".cpp";
}

std::string with_deckle_names(const Home& home, const std::string& code) {
  if (home.plain) return code;
  std::string text;
  for (size_t i = 0; i < code.size();) {
    const bool comment = code.compare(i, 2, "//") == 0, literal = code[i] == '"';
    if (comment || literal || !in_word(code[i])) {
      size_t end = comment ? code.find('\n', i) : i + 1;
      while (literal && end < code.size() && code[end] != '"') end += code[end] == '\\' ? 2 : 1;
      end = std::min(end, code.size() - 1) + (literal ? 1 : 0);
      text += code.substr(i, std::max(end, i + 1) - i);
      i = std::max(end, i + 1);
      continue;
    }
    size_t end = i;
    while (end < code.size() && in_word(code[end])) ++end;
    const std::string_view word = std::string_view(code).substr(i, end - i);
    // "nested" as a namespace: not as a word, nor where it is opened.
    const bool known = is_class_of_library(word) || (word == "nested" && code.compare(end, 2, "::") == 0);
    const bool qualified = i >= 2 && code.compare(i - 2, 2, "::") == 0;
    text += (known && !qualified ? "deckle::" : "") + std::string(word);
    i = end;
  }
  return text;
}

}  // namespace opgen
