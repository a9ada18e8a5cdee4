#include "deckle/kernels/cpu/simd/amx.h"

#include <atomic>
#include <cmath>
#include <cstring>

#include "deckle/base/check.h"

namespace deckle::kernels::cpu::simd {
namespace {

std::atomic<bool> modelled{false};

/// The tile registers of one thread of the software model.
struct ModelRegisters {
  alignas(64) uint32_t words[8][kTile][kTile];
};

ModelRegisters& registers() {
  thread_local ModelRegisters mine;
  return mine;
}

float bfloat16_part(uint32_t pair, int odd) {
  const uint32_t bits = odd != 0 ? pair & 0xffff0000u : pair << 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

/// Denormal numbers count as 0, on both sides of every operation.
float flush(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }

/// The instructions in plain C++.
struct ModelTiles {
  template <int kRegister>
  static void zero() {
    std::memset(registers().words[kRegister], 0, sizeof(registers().words[kRegister]));
  }
  template <int kRegister>
  static void load(const void* from, int64_t stride) {
    for (int64_t r = 0; r < kTile; ++r)
      std::memcpy(registers().words[kRegister][r], static_cast<const char*>(from) + r * stride, sizeof(uint32_t) * kTile);
  }
  template <int kRegister>
  static void store(void* to, int64_t stride) {
    for (int64_t r = 0; r < kTile; ++r)
      std::memcpy(static_cast<char*>(to) + r * stride, registers().words[kRegister][r], sizeof(uint32_t) * kTile);
  }
  /// Even and odd elements of the pairs are summed separately by fused multiply-adds in ascending order; the total of both is
  /// then added to C.
  template <int kC, int kA, int kB>
  static void dot() {
    auto& words = registers().words;
    for (int64_t m = 0; m < kTile; ++m) {
      float sums[2][kTile] = {};
      for (int64_t k = 0; k < kTile; ++k) {
        for (int odd = 0; odd < 2; ++odd) {
          const float a = flush(bfloat16_part(words[kA][m][k], odd));
          for (int64_t n = 0; n < kTile; ++n)
            sums[odd][n] = flush(std::fma(a, flush(bfloat16_part(words[kB][k][n], odd)), sums[odd][n]));
        }
      }
      for (int64_t n = 0; n < kTile; ++n) {
        float c;
        std::memcpy(&c, &words[kC][m][n], 4);
        c = flush(flush(c) + flush(sums[0][n] + sums[1][n]));
        std::memcpy(&words[kC][m][n], &c, 4);
      }
    }
  }
};

#if defined(__x86_64__)
/// The instructions themselves; GCC's intrinsics require register numbers as literals.
struct HardwareTiles {
  template <int kRegister>
  static void zero() {
    asm volatile("tilezero %%tmm%c0" ::"n"(kRegister));
  }
  template <int kRegister>
  static void load(const void* from, int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "n"(kRegister) : "memory");
  }
  template <int kRegister>
  static void store(void* to, int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "n"(kRegister) : "memory");
  }
  template <int kC, int kA, int kB>
  static void dot() {
    asm volatile("tdpbf16ps %%tmm%c0, %%tmm%c1, %%tmm%c2" ::"n"(kB), "n"(kA), "n"(kC));
  }
};

/// All eight registers as 16 rows of 64 bytes.
struct alignas(64) Layout {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

void configure() {
  Layout layout;
  for (int t = 0; t < 8; ++t) layout.row_bytes[t] = 64, layout.rows[t] = kTile;
  asm volatile("ldtilecfg %0" ::"m"(layout));  // GCC's intrinsic reads 8 bytes of it, as the compiler sees it
}
void release() { asm volatile("tilerelease"); }
#endif

/// C[16 kRows, 16 kColumns] of registers 0 to 3; 4 and 5 hold A, 6 and 7 B.
template <class Tiles, int kRows, int kColumns>
inline void block(int64_t depth, const uint32_t* a, int64_t lda, const uint32_t* b, int64_t ldb, float* c, int64_t ldc,
                  bool add) {
  const int64_t a_bytes = 4 * lda, b_bytes = 4 * ldb, c_bytes = 4 * ldc;
  if (add) {
    Tiles::template load<0>(c, c_bytes);
    if constexpr (kColumns > 1) Tiles::template load<1>(c + kTile, c_bytes);
    if constexpr (kRows > 1) Tiles::template load<2>(c + kTile * ldc, c_bytes);
    if constexpr (kRows > 1 && kColumns > 1) Tiles::template load<3>(c + kTile * ldc + kTile, c_bytes);
  } else {
    Tiles::template zero<0>();
    if constexpr (kColumns > 1) Tiles::template zero<1>();
    if constexpr (kRows > 1) Tiles::template zero<2>();
    if constexpr (kRows > 1 && kColumns > 1) Tiles::template zero<3>();
  }
  for (int64_t k = 0; k < depth; k += kTile, a += kTile, b += kTile * ldb) {
    Tiles::template load<4>(a, a_bytes);
    Tiles::template load<6>(b, b_bytes);
    Tiles::template dot<0, 4, 6>();
    if constexpr (kColumns > 1) {
      Tiles::template load<7>(b + kTile, b_bytes);
      Tiles::template dot<1, 4, 7>();
    }
    if constexpr (kRows > 1) {
      Tiles::template load<5>(a + kTile * lda, a_bytes);
      Tiles::template dot<2, 5, 6>();
      if constexpr (kColumns > 1) Tiles::template dot<3, 5, 7>();
    }
  }
  Tiles::template store<0>(c, c_bytes);
  if constexpr (kColumns > 1) Tiles::template store<1>(c + kTile, c_bytes);
  if constexpr (kRows > 1) Tiles::template store<2>(c + kTile * ldc, c_bytes);
  if constexpr (kRows > 1 && kColumns > 1) Tiles::template store<3>(c + kTile * ldc + kTile, c_bytes);
}

template <class Tiles, int kColumns>
void panel(int64_t m, int64_t depth, const uint32_t* a, int64_t lda, const uint32_t* b, int64_t ldb, float* c, int64_t ldc,
           bool add) {
  int64_t i = 0;
  for (; i + kTile < m; i += 2 * kTile) block<Tiles, 2, kColumns>(depth, a + i * lda, lda, b, ldb, c + i * ldc, ldc, add);
  if (i < m) block<Tiles, 1, kColumns>(depth, a + i * lda, lda, b, ldb, c + i * ldc, ldc, add);
}

template <class Tiles>
void multiply(int64_t m, int64_t n, int64_t depth, const uint32_t* a, int64_t lda, const uint32_t* b, int64_t ldb, float* c,
              int64_t ldc, bool add) {
  int64_t j = 0;
  for (; j + kTile < n; j += 2 * kTile) panel<Tiles, 2>(m, depth, a, lda, b + j, ldb, c + j, ldc, add);
  if (j < n) panel<Tiles, 1>(m, depth, a, lda, b + j, ldb, c + j, ldc, add);
}

/// Requests 64 bytes from `byte` on of 16 rows.
inline void request(const RowRequests& requests, int64_t row, int64_t byte) {
  if (requests.first == nullptr) return;
  const char* at = requests.first + row * requests.stride + byte;
#pragma GCC unroll 16
  for (int64_t r = 0; r < kTile; ++r, at += requests.stride) __builtin_prefetch(at, 0, 3);
}

/// Rows of one or two tiles; B stays in registers. Loads of a register wait until the product that reads it is done, so each
/// pair of tiles of keys has its own.
template <class Tiles, int kDepth>
void row_scores(int64_t keys, const uint32_t* k, int64_t ldk, const uint32_t* b, float* c, const RowRequests& requests) {
  const int64_t bytes = 4 * ldk;
  Tiles::template load<6>(b, 4 * kTile);
  if constexpr (kDepth > 1) Tiles::template load<7>(b + kTile * kTile, 4 * kTile);
  const auto one = [&]<int kC, int kA>(int64_t j) {
    const uint32_t* const from = k + j * ldk;
    Tiles::template zero<kC>();
    Tiles::template load<kA>(from, bytes);
    if constexpr (kDepth > 1) Tiles::template load<kA + 1>(from + kTile, bytes);
    request(requests, j, 0);
    Tiles::template dot<kC, kA, 6>();
    if constexpr (kDepth > 1) {
      request(requests, j, 64);
      Tiles::template dot<kC, kA + 1, 7>();
    }
    Tiles::template store<kC>(c + j * kTile, 4 * kTile);
  };
  int64_t j = 0;
  for (; j + kTile < keys; j += 2 * kTile) one.template operator()<0, 2>(j), one.template operator()<1, 4>(j + kTile);
  if (j < keys) one.template operator()<0, 2>(j);
}

template <class Tiles>
void scores(int64_t keys, int64_t depth, const uint32_t* k, int64_t ldk, const uint32_t* b, float* c,
            const RowRequests& requests) {
  if (depth == kTile) return row_scores<Tiles, 1>(keys, k, ldk, b, c, requests);
  if (depth == 2 * kTile) return row_scores<Tiles, 2>(keys, k, ldk, b, c, requests);
  for (int64_t j = 0; j < keys; j += kTile) {
    for (int64_t u = 0; u < depth; u += kTile) request(requests, j, 4 * u);
    block<Tiles, 1, 1>(depth, k + j * ldk, ldk, b, kTile, c + j * kTile, kTile, false);
  }
}

template <class Tiles, int kCount>
void row_sums(int64_t keys, const TileSum* sums, int64_t lda, int64_t ldb, int64_t ldc, bool add) {
  const auto each = [&](const auto& body) {
    body.template operator()<0>();
    if constexpr (kCount > 1) body.template operator()<1>();
    if constexpr (kCount > 2) body.template operator()<2>();
    if constexpr (kCount > 3) body.template operator()<3>();
  };
  each([&]<int kSum>() {
    if (add) {
      Tiles::template load<kSum>(sums[kSum].c, 4 * ldc);
    } else {
      Tiles::template zero<kSum>();
    }
  });
  const int64_t bytes = 4 * ldb;
  for (int64_t j = 0; j < keys; j += kTile) {
    const uint32_t* a = nullptr;
    const auto product = [&]<int kSum, int kA>(const uint32_t* from) {
      constexpr int kB = 6 + kSum % 2;
      Tiles::template load<kB>(from, bytes);
      request(sums[kSum].requests, j, 0);
      Tiles::template dot<kSum, kA, kB>();
    };
    each([&]<int kSum>() {
      const TileSum& sum = sums[kSum];
      // Registers of the first half and of the second; most often two heads of two tiles each.
      constexpr int kA = kSum < 2 ? 4 : 5;
      if (kSum == 2 || sum.a != a) Tiles::template load<kA>(sum.a + j, 4 * lda);
      a = sum.a;
      product.template operator()<kSum, kA>(sum.b + j * ldb);
    });
  }
  each([&]<int kSum>() { Tiles::template store<kSum>(sums[kSum].c, 4 * ldc); });
}

template <class Tiles>
void sums_of(int64_t keys, const TileSum* sums, int64_t count, int64_t lda, int64_t ldb, int64_t ldc, bool add) {
  if (count == 1) return row_sums<Tiles, 1>(keys, sums, lda, ldb, ldc, add);
  if (count == 2) return row_sums<Tiles, 2>(keys, sums, lda, ldb, ldc, add);
  if (count == 3) return row_sums<Tiles, 3>(keys, sums, lda, ldb, ldc, add);
  row_sums<Tiles, 4>(keys, sums, lda, ldb, ldc, add);
}

/// body(tiles) with the processor's tiles, or their model.
template <typename Body>
void on_tiles(const Body& body) {
  if (modelled.load(std::memory_order_relaxed)) return body(ModelTiles{});
#if defined(__x86_64__)
  body(HardwareTiles{});
#else
  fail(ErrorKind::runtime, "this machine has no AMX tiles");
#endif
}

}  // namespace

TileScope::TileScope() {
  if (modelled.load(std::memory_order_relaxed)) return;
#if defined(__x86_64__)
  configure();
#endif
}

TileScope::~TileScope() {
#if defined(__x86_64__)
  if (!modelled.load(std::memory_order_relaxed)) release();
#endif
}

Bf16Arithmetic bf16_products() { return modelled.load(std::memory_order_relaxed) ? Bf16Arithmetic::tiles : bf16_arithmetic(); }

void tile_matmul(int64_t m, int64_t n, int64_t depth, const uint32_t* a, int64_t lda, const uint32_t* b, int64_t ldb, float* c,
                 int64_t ldc, bool add) {
  on_tiles([&]<class Tiles>(Tiles) { multiply<Tiles>(m, n, depth, a, lda, b, ldb, c, ldc, add); });
}

void tile_scores(int64_t keys, int64_t depth, const uint32_t* k, int64_t ldk, const uint32_t* b, float* c,
                 const RowRequests& requests) {
  on_tiles([&]<class Tiles>(Tiles) { scores<Tiles>(keys, depth, k, ldk, b, c, requests); });
}

void tile_sums(int64_t keys, const TileSum* sums, int64_t count, int64_t lda, int64_t ldb, int64_t ldc, bool add) {
  on_tiles([&]<class Tiles>(Tiles) { sums_of<Tiles>(keys, sums, count, lda, ldb, ldc, add); });
}

void model_tiles(bool on) { modelled.store(on); }

}  // namespace deckle::kernels::cpu::simd
