#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace deckle::kernels::cpu {

/// Sorts one lane at a time, stable; NaN counts as larger than everything. float lanes become integers with the key in the high
/// and the position in the low bits: keys are distinct, so an unstable sort is stable. Others sort pairs of key and position.
template <typename T>
class LaneSorter {
 public:
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, int64_t>);

  /// order[i] is the position of the i-th element in sorted order of x[0], x[stride], ... n < 2^32.
  template <typename Element>
  void sort(const Element* x, int64_t stride, int64_t n, bool descending, int64_t* order) {
    items_.resize(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) items_[static_cast<size_t>(i)] = item(static_cast<T>(x[i * stride]), i, descending);
    if constexpr (kPacked) {
      std::sort(items_.begin(), items_.end());
    } else {
      std::stable_sort(items_.begin(), items_.end(), [descending](const Item& a, const Item& b) {
        return descending ? before(b.key, a.key) : before(a.key, b.key);
      });
    }
    for (int64_t i = 0; i < n; ++i) order[i] = place(items_[static_cast<size_t>(i)]);
  }

 private:
  static constexpr bool kPacked = std::is_same_v<T, float>;
  struct Pair {
    T key;
    int64_t place;
  };
  using Item = std::conditional_t<kPacked, uint64_t, Pair>;

  static bool before(T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
      return a < b || (std::isnan(b) && !std::isnan(a));
    else
      return a < b;
  }

  static Item item(T key, int64_t place, bool descending) {
    if constexpr (kPacked) {
      // Order-preserving bits: negative numbers inverted, the others above them; one zero, one NaN above infinity.
      const auto bits = std::bit_cast<uint32_t>(key == 0 ? 0.0f : key);
      const uint32_t rank = std::isnan(key) ? ~0u : bits >> 31 ? ~bits : bits | 0x80000000u;
      return static_cast<uint64_t>(descending ? ~rank : rank) << 32 | static_cast<uint32_t>(place);
    } else {
      return {key, place};
    }
  }

  static int64_t place(const Item& item) {
    if constexpr (kPacked)
      return static_cast<int64_t>(item & 0xffffffffu);
    else
      return item.place;
  }

  std::vector<Item> items_;
};

/// The key type for sorting elements of T.
template <typename T>
using SortKey = std::conditional_t<std::is_integral_v<T>, int64_t, std::conditional_t<std::is_same_v<T, double>, double, float>>;

}  // namespace deckle::kernels::cpu
