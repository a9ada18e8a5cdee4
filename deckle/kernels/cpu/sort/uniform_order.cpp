// The order of numbers that are spread evenly over [0, 1), as randperm draws them.
//
// An item is the first 32 bits of a key above its place. Items go to parts by their first bits, and those of a part, which stay
// in the first cache, to about twice as many buckets by the bits that follow. A pass of insertion puts those of a bucket in
// order, by the whole keys where 32 bits are not enough.
//
//   version                                    10 k: us    1 M: us     (with the draws; two cores of Emerald Rapids)
//   buckets of four, each sorted (lane.h)           213      35,500
//   parts, one digit of thirteen bits                80       9,200
// Parts picked in vectors, sums of counts four at a time and pairs put in order without a branch: 82 us in place of 132 in
// turns, 10 k (337b8cf6 and its parent).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/sort/uniform_order.cpp"
#include "deckle/kernels/cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef DECKLE_KERNELS_CPU_SORT_UNIFORM_ORDER_ONCE
#define DECKLE_KERNELS_CPU_SORT_UNIFORM_ORDER_ONCE
namespace deckle::kernels::cpu {

inline uint64_t item_of(double key, int64_t place) {
  return static_cast<uint64_t>(static_cast<int64_t>(key * 0x1p32)) << 32 | static_cast<uint64_t>(place);
}

}  // namespace deckle::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Those of n keys that are of one half, or all of them (half: -1); returns how many. Room for a vector more is written to.
int64_t items_of(const double* keys, int64_t n, int64_t half, uint64_t* items) {
  const hn::ScalableTag<double> d;
  const hn::RebindToSigned<decltype(d)> integers;
  const hn::RebindToUnsigned<decltype(d)> words;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto scale = hn::Set(d, 0x1p32), middle = hn::Set(d, 0.5);
  auto places = hn::Iota(words, 0);
  const auto step = hn::Set(words, static_cast<uint64_t>(lanes));
  int64_t i = 0, found = 0;
  for (; i + lanes <= n; i += lanes, places = hn::Add(places, step)) {
    const auto key = hn::LoadU(d, keys + i);
    const auto upper = hn::BitCast(words, hn::ConvertTo(integers, hn::Mul(key, scale)));
    const auto item = hn::Or(hn::ShiftLeft<32>(upper), places);
    if (half < 0) {
      hn::StoreU(item, words, items + i);
    } else {
      const auto mask = half == 0 ? hn::Lt(key, middle) : hn::Ge(key, middle);
      found += static_cast<int64_t>(hn::CompressStore(item, hn::RebindMask(words, mask), words, items + found));
    }
  }
  if (half < 0) found = i;
  for (; i < n; ++i) {
    items[found] = item_of(keys[i], i);
    found += half < 0 || (keys[i] < 0.5) == (half == 0);
  }
  return found;
}

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "deckle/base/check.h"
#include "deckle/base/parallel.h"
#include "deckle/base/scratch.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/view.h"

namespace deckle::kernels::cpu {

HWY_EXPORT(items_of);

namespace {

constexpr int64_t kPart = 4096;    // elements of a part, at most on average: in the first cache with what sorts them
constexpr int64_t kWhole = 16384;  // elements up to which two parts are enough, each picked out of all
constexpr int64_t kFew = 2048;     // elements that are worth no second part
constexpr int64_t kChunk = 32768;  // elements that one range gives to the parts
constexpr int kMostDigit = 13;
constexpr int kMostParts = 12;    // bits
constexpr int kInBucketBits = 6;  // insertion sorts fewer than 2^6 elements
constexpr int64_t kVector = 64;   // elements of any vector, at most

struct Order {
  const double* keys;

  /// Whether a comes before b; of different places.
  bool operator()(uint64_t a, uint64_t b) const {
    if (a >> 32 != b >> 32) return a < b;
    const auto place_a = static_cast<uint32_t>(a), place_b = static_cast<uint32_t>(b);
    return keys[place_a] < keys[place_b] || (keys[place_a] == keys[place_b] && place_a < place_b);
  }
};

/// Counts of buckets become where each begins, four in a word at a time: they add up to fewer than 2^16. False where one of them
/// is too large for insertion.
bool begin_buckets(uint16_t* counts, int64_t buckets) {
  constexpr uint64_t kEach = 0x0001000100010001, kTooLarge = (0xffffu >> kInBucketBits << kInBucketBits) * kEach;
  uint64_t before = 0, all = 0;
  for (int64_t i = 0; i < buckets; i += 4) {
    uint64_t four;
    std::memcpy(&four, counts + i, sizeof four);
    all |= four;
    uint64_t sums = four + (four << 16);  // in the order of memory, lowest first
    sums += sums << 32;
    const uint64_t begins = (sums << 16) + before * kEach;
    std::memcpy(counts + i, &begins, sizeof begins);
    before += sums >> 48;
  }
  return (all & kTooLarge) == 0;
}

/// Sorts `n` items, whose first `known` bits are equal, with the help of as many others; writes their places.
void sort_part(uint64_t* items, uint64_t* others, int64_t n, int known, const Order& before, int64_t* order) {
  const int digit = std::clamp(static_cast<int>(std::bit_width(static_cast<uint64_t>(n))), 4, kMostDigit);
  const int shift = 64 - known - digit;
  const int64_t buckets = int64_t{1} << digit;
  const auto bucket = [&](uint64_t item) { return item >> shift & static_cast<uint64_t>(buckets - 1); };
  uint16_t starts[1 << kMostDigit];
  bool spread = n <= UINT16_MAX;
  if (spread) {
    std::fill_n(starts, buckets, uint16_t{0});
    for (int64_t i = 0; i < n; ++i) ++starts[bucket(items[i])];
    spread = begin_buckets(starts, buckets);
  }
  if (!spread) {
    std::sort(items, items + n, before);
    std::swap(items, others);
  } else {
    for (int64_t i = 0; i < n; ++i) others[starts[bucket(items[i])]++] = items[i];
    // Most buckets have one item or two: these are put in order without a branch, which nothing foretells.
    uint64_t later = n > 0 ? others[0] : 0;
    for (int64_t i = 1; i < n; ++i) {
      const uint64_t item = others[i], swapped = (item ^ later) & -static_cast<uint64_t>(item < later);
      others[i - 1] = later ^ swapped;
      later = item ^ swapped;
    }
    if (n > 0) others[n - 1] = later;
    for (int64_t i = 1; i < n; ++i) {
      const uint64_t item = others[i];
      if (!before(item, others[i - 1])) continue;  // nearly always
      int64_t at = i;
      for (; at > 0 && before(item, others[at - 1]); --at) others[at] = others[at - 1];
      others[at] = item;
    }
  }
  for (int64_t i = 0; i < n; ++i) order[i] = static_cast<int64_t>(others[i] & 0xffffffffu);
}

/// Up to kWhole keys: each part is picked out of all of them.
void order_few(const double* keys, int64_t n, int64_t* order) {
  const int parts = n <= kFew ? 1 : 2;
  parallel_for(parts, 1, [&](int64_t part, int64_t) {
    Scratch scratch;
    auto* const items = scratch.take<uint64_t>(n + kVector);
    const int64_t count = DECKLE_SIMD(items_of)(keys, n, parts == 1 ? -1 : part, items);
    sort_part(items, scratch.take<uint64_t>(count), count, parts - 1, Order{keys}, order + (part == 0 ? 0 : n - count));
  });
}

void order_many(const double* keys, int64_t n, int64_t* order) {
  const int bits = std::clamp(static_cast<int>(std::bit_width(static_cast<uint64_t>(n / kPart))), 1, kMostParts);
  const int64_t parts = int64_t{1} << bits, chunks = (n + kChunk - 1) / kChunk;
  Scratch scratch;
  auto* const items = scratch.take<uint64_t>(n);
  auto* const starts = scratch.take<int64_t>(chunks * parts + 1);  // by part, then chunk
  const auto part_of = [&](uint64_t item) { return static_cast<int64_t>(item >> (64 - bits)); };
  parallel_for(chunks, 1, [&](int64_t chunk, int64_t) {
    int64_t counts[1 << kMostParts] = {};
    const int64_t end = std::min(n, (chunk + 1) * kChunk);
    for (int64_t i = chunk * kChunk; i < end; ++i) ++counts[part_of(item_of(keys[i], 0))];
    for (int64_t part = 0; part < parts; ++part) starts[part * chunks + chunk] = counts[part];
  });
  int64_t sum = 0;
  for (int64_t part = 0; part < parts; ++part) {
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      const int64_t count = starts[part * chunks + chunk];
      starts[part * chunks + chunk] = sum;
      sum += count;
    }
  }
  starts[chunks * parts] = n;
  parallel_for(chunks, 1, [&](int64_t chunk, int64_t) {
    int64_t next[1 << kMostParts];
    for (int64_t part = 0; part < parts; ++part) next[part] = starts[part * chunks + chunk];
    const int64_t end = std::min(n, (chunk + 1) * kChunk);
    for (int64_t i = chunk * kChunk; i < end; ++i) {
      const uint64_t item = item_of(keys[i], i);
      items[next[part_of(item)]++] = item;
    }
  });
  parallel_for(parts, 1, [&](int64_t part, int64_t) {
    const int64_t begin = starts[part * chunks], count = (part + 1 == parts ? n : starts[(part + 1) * chunks]) - begin;
    Scratch others;
    sort_part(items + begin, others.take<uint64_t>(count), count, bits, Order{keys}, order + begin);
  });
}

}  // namespace

/// order[i] is the place of the i-th of the keys, float64 in [0, 1), in ascending order, equal ones by their place; contiguous.
void uniform_order(const Context&, const View& keys, const View& order) {
  const int64_t n = keys.numel();
  check(n < int64_t{1} << 32, "{} elements (expected fewer than 2^32)", n);
  (n <= kWhole ? order_few : order_many)(keys.ptr<const double>(), n, order.ptr<int64_t>());
}

}  // namespace deckle::kernels::cpu
#endif
