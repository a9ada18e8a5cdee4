#pragma once

#include <cstddef>
#include <string_view>

namespace deckle::io {

/// Index of the first byte of `text` that breaks UTF-8 (overlong forms, surrogates and values above U+10FFFF included);
/// npos if there is none.
size_t find_invalid_utf8(std::string_view text);

/// The largest index <= `limit` at which `text`, valid UTF-8, can be cut between two characters; 0 if there is none.
size_t utf8_cut(std::string_view text, size_t limit);

}  // namespace deckle::io
