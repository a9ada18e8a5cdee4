#include "deckle/attention/key_spans.h"

#include <algorithm>
#include <cstring>

namespace deckle {

void append(KeySpans& to, KeySpan span) {
  if (!to.empty() && span.begin <= to.back().end) {
    to.back().end = std::max(to.back().end, span.end);
  } else {
    to.push_back(span);
  }
}

KeySpans clip_span(int64_t begin, int64_t end, int64_t keys) {
  begin = std::max<int64_t>(begin, 0), end = std::min(end, keys);
  return begin < end ? KeySpans{{begin, end}} : KeySpans{};
}

KeySpans true_spans(const bool* allowed, int64_t keys) {
  KeySpans result;
  if (keys == 0) return result;
  const auto next = [&](int64_t from, bool value) {
    const void* const found = std::memchr(allowed + from, value, static_cast<size_t>(keys - from));
    return found == nullptr ? keys : static_cast<const bool*>(found) - allowed;
  };
  for (int64_t begin = next(0, true); begin < keys;) {
    const int64_t end = next(begin, false);
    result.push_back({begin, end});
    begin = next(end, true);
  }
  return result;
}

KeySpans intersect(const KeySpans& a, const KeySpans& b) {
  KeySpans result;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const KeySpan overlap{std::max(a[i].begin, b[j].begin), std::min(a[i].end, b[j].end)};
    if (overlap.begin < overlap.end) result.push_back(overlap);
    if (a[i].end < b[j].end) {
      ++i;
    } else {
      ++j;
    }
  }
  return result;
}

KeySpans unite(const KeySpans& a, const KeySpans& b) {
  KeySpans result;
  for (size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    const bool from_a = j == b.size() || (i < a.size() && a[i].begin < b[j].begin);
    append(result, from_a ? a[i++] : b[j++]);
  }
  return result;
}

KeySpans complement(const KeySpans& a, int64_t keys) {
  KeySpans result;
  int64_t begin = 0;
  for (const KeySpan& span : a) {
    if (begin < span.begin) result.push_back({begin, span.begin});
    begin = span.end;
  }
  if (begin < keys) result.push_back({begin, keys});
  return result;
}

KeySpans cover(const KeySpans& a, size_t most) {
  if (a.size() <= most) return a;
  std::vector<int64_t> gaps;
  for (size_t i = 1; i < a.size(); ++i) gaps.push_back(a[i].begin - a[i - 1].end);
  const auto kept = gaps.end() - static_cast<int64_t>(most) + 1;
  std::nth_element(gaps.begin(), kept, gaps.end());
  const int64_t narrowest_kept = *kept;
  KeySpans result;
  size_t may_keep = most - 1;
  for (const KeySpan& span : a) {
    const bool gap = !result.empty() && may_keep > 0 && span.begin - result.back().end >= narrowest_kept;
    if (result.empty() || gap) {
      result.push_back(span);
      may_keep -= gap;
    } else {
      result.back().end = span.end;
    }
  }
  return result;
}

}  // namespace deckle
