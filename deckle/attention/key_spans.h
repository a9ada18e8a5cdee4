#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace deckle {

/// Keys [begin, end), not empty.
struct KeySpan {
  int64_t begin, end;
  friend bool operator==(const KeySpan&, const KeySpan&) = default;
};

/// A set of keys of one sequence: ascending spans with gaps between them.
using KeySpans = std::vector<KeySpan>;

/// Keys [begin, end) as far as they are keys of a sequence of `keys`.
KeySpans clip_span(int64_t begin, int64_t end, int64_t keys);

/// Adds a span that begins no earlier than the last one.
void append(KeySpans& to, KeySpan span);

/// The keys of allowed[0, keys) that are true.
KeySpans true_spans(const bool* allowed, int64_t keys);

KeySpans intersect(const KeySpans& a, const KeySpans& b);
KeySpans unite(const KeySpans& a, const KeySpans& b);
KeySpans complement(const KeySpans& a, int64_t keys);

/// At most `most` (two or more) spans that hold all of `a`: the narrowest gaps are filled.
KeySpans cover(const KeySpans& a, size_t most);

}  // namespace deckle
