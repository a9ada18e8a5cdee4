#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "deckle/kernels/cpu/simd/beyond.h"

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
///
/// Elements first go to buckets by their distance from the smallest, four to a bucket if they are spread evenly, which takes no
/// comparison; buckets are then sorted by comparisons. So the time of evenly spread ones grows with n alone, and that of no
/// others faster than n log n.
template <typename T>
class LaneSorter {
 public:
  /// order[i] is the position of the i-th element in sorted order of x[0], x[1], ... n < 2^32.
  void sort(const T* x, int64_t n, bool descending, int64_t* order) {
    const Order before(descending);
    items_.resize(static_cast<size_t>(n));
    if (n < kFewest || !sort_by_buckets(x, n, descending, before, n)) {
      for (int64_t i = 0; i < n; ++i) items_[static_cast<size_t>(i)] = before.item(x[i], i);
      sort_items(0, static_cast<size_t>(n), before);
    }
    take(n, order);
  }

  /// The first k of that order. 0 < k <= n. Many come out of buckets of which only the first are sorted. Of few, a sorted list of
  /// those so far: an element that is beyond its last is found by comparing vectors, and inserted.
  void select(const T* x, int64_t n, int64_t k, bool descending, int64_t* order) {
    const Order before(descending);
    if (k > kListed && k * kLarge >= n) {
      items_.resize(static_cast<size_t>(n));
      if (sort_by_buckets(x, n, descending, before, k)) return take(k, order);
    }
    if (k <= kListed)
      select_listed(x, n, k, descending, before);
    else
      select_many(x, n, k, descending, before);
    take(k, order);
  }

 private:
  using Order = LaneOrder<T>;
  using Item = typename Order::Item;

  static constexpr int64_t kFewest = 64;    // elements that are worth buckets
  static constexpr int64_t kInBucket = 4;   // elements of one, on average
  static constexpr size_t kInsertion = 24;  // elements that are sorted by insertion
  static constexpr int64_t kListed = 16;    // first ones that a sorted list holds
  static constexpr int64_t kLarge = 16;     // of n elements, one part in as many is worth buckets

  void take(int64_t k, int64_t* order) const {
    for (int64_t i = 0; i < k; ++i) order[i] = Order::place(items_[static_cast<size_t>(i)]);
  }

  void select_listed(const T* x, int64_t n, int64_t k, bool descending, const Order& before) {
    items_.resize(static_cast<size_t>(k));
    for (int64_t i = 0; i < k; ++i) items_[static_cast<size_t>(i)] = before.item(x[i], i);
    sort_items(0, static_cast<size_t>(k), before);
    Item *const first = items_.data(), *const last = first + k - 1;
    T limit = x[Order::place(*last)];
    for (int64_t i = k; (i = simd::next_beyond(x, i, n, limit, !descending)) < n; ++i) {
      const Item item = before.item(x[i], i);
      if (!before(item, *last)) continue;  // a NaN among them
      Item* at = last;
      for (; at != first && before(item, *(at - 1)); --at) *at = *(at - 1);
      *at = item;
      limit = x[Order::place(*last)];
    }
  }

  /// Those before the k-th of the ones so far are kept, at most 2k + 64, and when that many are there the last of them leave:
  /// O(n + k log k) whatever the order of x.
  void select_many(const T* x, int64_t n, int64_t k, bool descending, const Order& before) {
    const auto most = static_cast<size_t>(2 * k + 64);
    const auto kth = [&] { return items_.begin() + k; };
    items_.clear();
    items_.reserve(std::min(most, static_cast<size_t>(n)));
    Item last{};  // the k-th of those so far, and its key
    T limit{};
    bool full = false;
    for (int64_t i = 0; i < n; ++i) {
      if (full) {
        i = simd::next_beyond(x, i, n, limit, !descending);  // equal ones come later
        if (i == n) break;
        if (!before(before.item(x[i], i), last)) continue;  // a NaN among them
      }
      items_.push_back(before.item(x[i], i));
      if (items_.size() < most) continue;
      std::nth_element(items_.begin(), kth() - 1, items_.end(), before);
      items_.resize(static_cast<size_t>(k));
      full = true;
      last = items_.back();
      limit = x[Order::place(last)];
    }
    std::nth_element(items_.begin(), kth() - 1, items_.end(), before);
    std::sort(items_.begin(), kth(), before);
  }

  /// Of items that stand in the order of their places.
  void sort_items(size_t begin, size_t end, const Order& before) {
    const auto first = items_.begin() + static_cast<int64_t>(begin), last = items_.begin() + static_cast<int64_t>(end);
    if (end - begin <= kInsertion) {
      for (auto next = first; next != last; ++next) {
        const Item item = *next;
        auto at = next;
        for (; at != first && before(item, *(at - 1)); --at) *at = *(at - 1);
        *at = item;
      }
    } else if constexpr (Order::kPacked) {
      std::sort(first, last);  // no ties: an unstable sort is stable
    } else {
      std::stable_sort(first, last, [&](const Item& a, const Item& b) { return before.by_key(a, b); });
    }
  }

  /// The first k in order. False where there is no distance to go by: all elements equal, or one infinitely far from another.
  bool sort_by_buckets(const T* x, int64_t n, bool descending, const Order& before, int64_t k) {
    double least = std::numeric_limits<double>::infinity(), most = -least;
    for (int64_t i = 0; i < n; ++i) {  // a NaN changes neither
      const auto value = static_cast<double>(x[i]);
      least = value < least ? value : least;
      most = value > most ? value : most;
    }
    const int64_t last = n / kInBucket;  // the bucket of NaN
    const double scale = static_cast<double>(last - 1) / (most - least);
    if (!(most - least > 0) || !std::isfinite(most - least) || !std::isfinite(scale)) return false;
    starts_.assign(static_cast<size_t>(last) + 2, 0);
    buckets_.resize(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) {
      const auto value = static_cast<double>(x[i]);
      const int64_t bucket = std::isnan(value) ? last : std::min(static_cast<int64_t>((value - least) * scale), last - 1);
      const auto chosen = static_cast<uint32_t>(descending ? last - bucket : bucket);
      buckets_[static_cast<size_t>(i)] = chosen;
      ++starts_[chosen + 1];
    }
    for (size_t bucket = 1; bucket < starts_.size(); ++bucket) starts_[bucket] += starts_[bucket - 1];
    for (int64_t i = 0; i < n; ++i)  // starts_ become ends
      items_[starts_[buckets_[static_cast<size_t>(i)]]++] = before.item(x[i], i);
    size_t begin = 0;
    for (size_t bucket = 0; bucket + 1 < starts_.size() && begin < static_cast<size_t>(k); ++bucket) {
      const size_t end = starts_[bucket];
      if (end - begin > 1) sort_items(begin, end, before);
      begin = end;
    }
    return true;
  }

  std::vector<Item> items_;
  std::vector<uint32_t> buckets_, starts_;
};

/// The key type for sorting elements of T.
template <typename T>
using SortKey = std::conditional_t<std::is_integral_v<T>, int64_t, std::conditional_t<std::is_same_v<T, double>, double, float>>;

}  // namespace deckle::kernels::cpu
