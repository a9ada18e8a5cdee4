#pragma once

#include <cstdint>
#include <string_view>

namespace deckle::fuzz {

/// Reads decisions from an input; zeros at its end.
class Bytes {
 public:
  explicit Bytes(std::string_view input) : rest_(input) {}

  bool empty() const { return rest_.empty(); }
  uint8_t byte() {
    if (rest_.empty()) return 0;
    const auto first = static_cast<uint8_t>(rest_[0]);
    rest_.remove_prefix(1);
    return first;
  }
  /// 0 to limit - 1.
  int64_t below(int64_t limit) { return byte() % limit; }
  std::string_view take(size_t count) {
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(taken.size());
    return taken;
  }
  std::string_view rest() { return take(rest_.size()); }
  int64_t word() {
    uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8 | byte();
    return static_cast<int64_t>(value);
  }

 private:
  std::string_view rest_;
};

}  // namespace deckle::fuzz
