#include "deckle/io/utf8.h"

#include <cstdint>
#include <cstring>

namespace deckle::io {

namespace {

bool is_continuation(unsigned char byte) { return (byte & 0xC0u) == 0x80u; }

/// Bytes of the valid character at the start of `rest`; 0 if there is none. The Unicode standard, table 3-7.
size_t character_length(std::string_view rest) {
  const auto at = [&](size_t i) { return i < rest.size() ? static_cast<unsigned char>(rest[i]) : 0u; };
  const unsigned first = at(0);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  // The second byte excludes overlong forms (E0, F0), surrogates (ED) and values above U+10FFFF (F4).
  const unsigned lowest = first == 0xE0 ? 0xA0u : first == 0xF0 ? 0x90u : 0x80u;
  const unsigned highest = first == 0xED ? 0x9Fu : first == 0xF4 ? 0x8Fu : 0xBFu;
  const size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (at(1) < lowest || at(1) > highest) return 0;
  for (size_t i = 2; i < length; ++i) {
    if (!is_continuation(static_cast<unsigned char>(at(i)))) return 0;
  }
  return length;
}

}  // namespace

size_t find_invalid_utf8(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    uint64_t word = 0;
    if (at + 8 <= text.size()) {  // eight ASCII bytes at once
      std::memcpy(&word, text.data() + at, 8);
      if ((word & 0x8080808080808080u) == 0) {
        at += 8;
        continue;
      }
    }
    const size_t length = character_length(text.substr(at));
    if (length == 0) return at;
    at += length;
  }
  return std::string_view::npos;
}

size_t utf8_cut(std::string_view text, size_t limit) {
  if (limit >= text.size()) return text.size();
  while (limit > 0 && is_continuation(static_cast<unsigned char>(text[limit]))) --limit;
  return limit;
}

}  // namespace deckle::io
