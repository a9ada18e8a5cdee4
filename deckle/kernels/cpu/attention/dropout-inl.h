// Which probabilities survive: the frozen, position-keyed Philox contract of docs/attention.md, a 16 x 16 block at a time.
//
// Rate of the forward with dropout over that without, S = 512, D = 64 (machine of forward.cpp):      float32   bfloat16
//   Philox in vectors, its bytes extracted and compared one by one                                        0.81      0.69
//   bytes permuted, compared and applied in vectors                                                0.94      0.88

#if defined(DECKLE_ATTENTION_DROPOUT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DECKLE_ATTENTION_DROPOUT_INL_H_
#undef DECKLE_ATTENTION_DROPOUT_INL_H_
#else
#define DECKLE_ATTENTION_DROPOUT_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "deckle/base/philox.h"
#include "deckle/kernels/args/attention.h"
#include "deckle/kernels/cpu/attention/matmul-inl.h"
#include "deckle/kernels/cpu/simd/not_equal.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR
/// Low and high halves of the products of 32-bit lanes.
template <class D, class V>
HWY_INLINE void multiply(D d, V a, V b, V& low, V& high) {
  const hn::RepartitionToWide<D> wide;
  const auto even = hn::MulEven(a, b), odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, a))), b);
  low = hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd)), hn::BitCast(d, even));
  high = hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even)));
}
#endif

/// The row of a block of flags that belongs to key j: the order in which whole vectors of calls yield them.
constexpr int64_t flag_row(int64_t j) { return (2 * (j & 1) + (j >> 3)) * 4 + (j >> 1) % 4; }

/// Flags of one 16 x 16 block, non-zero where its byte is at least `threshold` (1..255): of row i and key j in flags[16 *
/// flag_row(j) + i]. The 16 calls (a, c), seven rounds each, are the lanes 4 c + a.
HWY_NOINLINE inline void philox_block(uint32_t block_row, uint32_t block_column, uint32_t head, uint32_t sequence, uint32_t key0,
                                      uint32_t key1, int threshold, uint8_t* HWY_RESTRICT flags) {
#if HWY_TARGET == HWY_SCALAR
  for (uint32_t a = 0; a < 4; ++a) {
    for (uint32_t c = 0; c < 4; ++c) {
      const auto words = Philox<7>::generate({block_row, block_column, head << 4 | a << 2 | c, sequence}, key0, key1);
      for (uint32_t n = 0; n < 16; ++n) {  // byte n / 4 of word n % 4: row and key by docs/attention.md
        const uint32_t i = 8 * (n / 4 % 2) + 2 * a + n % 2, j = 8 * (n / 8) + 2 * c + n / 2 % 2;
        flags[16 * flag_row(j) + i] = static_cast<uint8_t>(words[n % 4] >> (8 * (n / 4))) >= threshold;
      }
    }
  }
#else
  const hn::CappedTag<uint32_t, 16> d;
  const hn::Repartition<uint8_t, decltype(d)> bytes;
  const auto multiplier0 = hn::Set(d, philox::kFactor0), multiplier1 = hn::Set(d, philox::kFactor1);
  alignas(16) static constexpr uint8_t kByteMajor[16] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
  const auto byte_major = hn::LoadDup128(bytes, kByteMajor), least = hn::Set(bytes, static_cast<uint8_t>(threshold));
  for (size_t first = 0; first < 16; first += hn::Lanes(d)) {
    const auto lane = hn::Iota(d, static_cast<uint32_t>(first));
    const auto call = hn::Or(hn::ShiftLeft<2>(hn::And(lane, hn::Set(d, 3u))), hn::ShiftRight<2>(lane));
    auto c0 = hn::Set(d, block_row), c1 = hn::Set(d, block_column), c2 = hn::Or(hn::Set(d, head << 4), call),
         c3 = hn::Set(d, sequence);
#pragma GCC unroll 7
    for (uint32_t round = 0; round < 7; ++round) {
      auto low0 = c0, high0 = c0, low1 = c2, high1 = c2;
      multiply(d, c0, multiplier0, low0, high0);
      multiply(d, c2, multiplier1, low1, high1);
      c0 = hn::Xor(hn::Xor(high1, c1), hn::Set(d, key0 + round * philox::kStep0));
      c1 = low1;
      c2 = hn::Xor(hn::Xor(high0, c3), hn::Set(d, key1 + round * philox::kStep1));
      c3 = low0;
    }
    // Words 2 p and 2 p + 1 hold keys of parity p, even and odd rows: bytes 0 and 1 of keys below 8, bytes 2 and 3 of the others.
    const auto keep = [&](auto even_rows, auto odd_rows, int64_t parity) {
      const auto even = hn::TableLookupBytes(hn::BitCast(bytes, even_rows), byte_major),
                 odd = hn::TableLookupBytes(hn::BitCast(bytes, odd_rows), byte_major);
      const auto low = hn::InterleaveLower(bytes, even, odd), high = hn::InterleaveUpper(bytes, even, odd);
      uint8_t* to = flags + 16 * flag_row(parity) + 4 * first;
      hn::StoreU(hn::VecFromMask(bytes, hn::Eq(hn::Max(low, least), low)), bytes, to);
      hn::StoreU(hn::VecFromMask(bytes, hn::Eq(hn::Max(high, least), high)), bytes, to + 64);
    };
    keep(c0, c1, 0);
    keep(c2, c3, 1);
  }
#endif
}

/// The dropout of one head of one sequence.
class Dropout {
 public:
  Dropout() = default;
  Dropout(const AttentionDropout& d, int64_t sequence, int64_t head)
      : threshold_(d.threshold),
        sequence_(static_cast<uint32_t>(sequence + d.first_sequence)),
        head_(static_cast<uint32_t>(head + d.first_head)),
        first_row_(d.first_row),
        first_column_(d.first_column) {
    if (threshold_ == 0) return;
    const auto key = d.key();
    key0_ = key[0];
    key1_ = key[1];
  }

  bool on() const { return threshold_ != 0; }

  /// The scale of kept elements; 0 if none is kept.
  static double factor(const AttentionDropout& d) { return d.threshold == 256 ? 0.0 : 256.0 / (256 - d.threshold); }

  /// keep[j * stride + i] != 0 iff (row + i, key + j) survives, for `rows` rows and `keys` keys.
  HWY_NOINLINE void tile(int64_t row, int64_t rows, int64_t key, int64_t keys, uint8_t* HWY_RESTRICT keep, int64_t stride) const {
    if (threshold_ > 255) {
      for (int64_t j = 0; j < keys; ++j) std::memset(keep + j * stride, 0, static_cast<size_t>(rows));
      return;
    }
    const int64_t row_end = row + first_row_ + rows, key_end = key + first_column_ + keys;
    alignas(64) uint8_t flags[256];
    for (int64_t block_key = (key + first_column_) & ~int64_t{15}; block_key < key_end; block_key += 16) {
      for (int64_t block_row = (row + first_row_) & ~int64_t{15}; block_row < row_end; block_row += 16) {
        philox_block(static_cast<uint32_t>(block_row >> 4), static_cast<uint32_t>(block_key >> 4), head_, sequence_, key0_, key1_,
                     threshold_, flags);
        const int64_t j_begin = std::max<int64_t>(0, key + first_column_ - block_key),
                      j_end = std::min<int64_t>(16, key_end - block_key);
        const int64_t i_begin = std::max<int64_t>(0, row + first_row_ - block_row),
                      i_end = std::min<int64_t>(16, row_end - block_row);
        for (int64_t j = j_begin; j < j_end; ++j) {
          const uint8_t* from = flags + 16 * flag_row(j);
          uint8_t* to = keep + (block_key + j - key - first_column_) * stride + (block_row - row - first_row_);
          if (i_end - i_begin == 16) {
            std::memcpy(to, from, 16);
          } else {
            std::copy(from + i_begin, from + i_end, to + i_begin);
          }
        }
      }
    }
  }

 private:
  int threshold_ = 0;
  uint32_t sequence_ = 0, head_ = 0, key0_ = 0, key1_ = 0;
  int64_t first_row_ = 0, first_column_ = 0;
};

/// tile[j, lane] *= keep ? factor : 0.
template <typename T>
HWY_NOINLINE void drop(T* HWY_RESTRICT tile, int64_t stride, int64_t keys, int64_t lanes, const uint8_t* HWY_RESTRICT keep,
                       T factor) {
  const hn::ScalableTag<T> d;
  const hn::RebindToUnsigned<decltype(d)> bits;
  const hn::Rebind<uint32_t, decltype(d)> words;
  const hn::Rebind<uint8_t, decltype(d)> bytes;
  const auto times = hn::Set(d, factor);
  for (int64_t j = 0; j < keys; ++j) {
    for (int64_t lane = 0; lane < lanes; lane += kLanes<T>) {
      const auto flags = hn::PromoteTo(words, hn::LoadU(bytes, keep + j * kBlock<T> + lane));
      hn::Vec<decltype(bits)> wide;
      if constexpr (sizeof(T) == 8) {
        wide = hn::PromoteTo(bits, flags);
      } else {
        wide = flags;
      }
      T* at = tile + j * stride + lane;
      hn::StoreU(hn::IfThenElseZero(hn::RebindMask(d, not_equal(wide, hn::Zero(bits))), hn::Mul(hn::LoadU(d, at), times)), d, at);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace deckle::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
