#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace deckle::kernels::cpu {

/// The elements of a lane in an order without ties: by key, NaN larger than everything, equal ones by their position. float keys
/// become integers with the key in the high and the position in the low bits; others are pairs of key and position.
template <typename T>
class LaneOrder {
 public:
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, int64_t>);

  static constexpr bool kPacked = std::is_same_v<T, float>;
  struct Pair {
    T key;
    int64_t place;
  };
  using Item = std::conditional_t<kPacked, uint64_t, Pair>;

  explicit LaneOrder(bool descending) : descending_(descending) {}

  /// place < 2^32.
  Item item(T key, int64_t place) const {
    if constexpr (kPacked) {
      // Order-preserving bits: negative numbers inverted, the others above them; one zero, one NaN above infinity.
      const auto bits = std::bit_cast<uint32_t>(key == 0 ? 0.0f : key);
      const uint32_t rank = std::isnan(key) ? ~0u : bits >> 31 ? ~bits : bits | 0x80000000u;
      return static_cast<uint64_t>(descending_ ? ~rank : rank) << 32 | static_cast<uint32_t>(place);
    } else {
      return {key, place};
    }
  }

  bool operator()(const Item& a, const Item& b) const {
    if constexpr (kPacked)
      return a < b;
    else
      return by_key(a, b) || (a.place < b.place && !by_key(b, a));
  }

  /// As (), but equal keys are ties: what a stable sort needs of pairs.
  bool by_key(const Pair& a, const Pair& b) const { return descending_ ? before(b.key, a.key) : before(a.key, b.key); }

  static int64_t place(const Item& item) {
    if constexpr (kPacked)
      return static_cast<int64_t>(item & 0xffffffffu);
    else
      return item.place;
  }

 private:
  static bool before(T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
      return a < b || (std::isnan(b) && !std::isnan(a));
    else
      return a < b;
  }

  bool descending_;
};

/// Sorts one lane at a time, stable; NaN counts as larger than everything.
template <typename T>
class LaneSorter {
 public:
  /// order[i] is the position of the i-th element in sorted order of x[0], x[1], ... n < 2^32.
  template <typename Element>
  void sort(const Element* x, int64_t n, bool descending, int64_t* order) {
    const Order before(descending);
    items_.resize(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) items_[static_cast<size_t>(i)] = before.item(static_cast<T>(x[i]), i);
    if constexpr (Order::kPacked)
      std::sort(items_.begin(), items_.end());  // no ties: an unstable sort is stable
    else
      std::stable_sort(items_.begin(), items_.end(), [&](const Item& a, const Item& b) { return before.by_key(a, b); });
    for (int64_t i = 0; i < n; ++i) order[i] = Order::place(items_[static_cast<size_t>(i)]);
  }

  /// The first k of that order. Elements pass one by one; those before the k-th of the ones so far are kept, at most 2k + 64, and
  /// when that many are there the last of them leave: O(n + k log k) whatever the order of x. 0 < k <= n.
  template <typename Element>
  void select(const Element* x, int64_t n, int64_t k, bool descending, int64_t* order) {
    const Order before(descending);
    const auto most = static_cast<size_t>(2 * k + 64);
    const auto kth = [&] { return items_.begin() + k; };
    items_.clear();
    items_.reserve(std::min(most, static_cast<size_t>(n)));
    Item last{};  // the k-th of those so far, and its key
    T limit{};
    bool full = false;
    for (int64_t i = 0; i < n; ++i) {
      const T key = static_cast<T>(x[i]);
      if (full) {
        if (descending ? key <= limit : key >= limit) continue;  // equal ones come later; NaN is for the comparison below
        if (!before(before.item(key, i), last)) continue;
      }
      items_.push_back(before.item(key, i));
      if (items_.size() < most) continue;
      std::nth_element(items_.begin(), kth() - 1, items_.end(), before);
      items_.resize(static_cast<size_t>(k));
      full = true;
      last = items_.back();
      limit = static_cast<T>(x[Order::place(last)]);
    }
    std::nth_element(items_.begin(), kth() - 1, items_.end(), before);
    std::sort(items_.begin(), kth(), before);
    for (int64_t i = 0; i < k; ++i) order[i] = Order::place(items_[static_cast<size_t>(i)]);
  }

 private:
  using Order = LaneOrder<T>;
  using Item = typename Order::Item;

  std::vector<Item> items_;
};

/// The key type for sorting elements of T.
template <typename T>
using SortKey = std::conditional_t<std::is_integral_v<T>, int64_t, std::conditional_t<std::is_same_v<T, double>, double, float>>;

}  // namespace deckle::kernels::cpu
