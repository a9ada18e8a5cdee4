#include "deckle/base/cpu_cap.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "deckle/base/error.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#endif

namespace deckle {
namespace {

constexpr const char* kNames[] = {"sse2", "avx2", "avx512", "avx512_bf16", "amx_bf16"};

/// Processors by ranges of models. GF/s of one core beside those that were measured (ae14af6a): FMA, pair dot, tiles.
struct KnownFamily {
  const char* vendor;
  int family, first_model, last_model;
  CpuFamily row;
};
constexpr Bf16Arithmetic kWidened = Bf16Arithmetic::widened, kPairDot = Bf16Arithmetic::pair_dot, kTiles = Bf16Arithmetic::tiles;
constexpr KnownFamily kKnown[] = {
    {"AuthenticAMD", 0x19, 0x10, 0x1f, {"Zen 4 (EPYC)", kPairDot, kPairDot}},  // 116, 233
    {"AuthenticAMD", 0x19, 0x60, 0xaf, {"Zen 4", kPairDot, kPairDot}},
    {"AuthenticAMD", 0x1a, 0x00, 0xff, {"Zen 5", kPairDot, kPairDot}},       // 272, 548
    {"GenuineIntel", 6, 0x8f, 0x8f, {"Sapphire Rapids", kTiles, kWidened}},  // 147, 76
    {"GenuineIntel", 6, 0xcf, 0xcf, {"Emerald Rapids", kTiles, kWidened}},   // 171, 84, 2966
    {"GenuineIntel", 6, 0xad, 0xae, {"Granite Rapids", kTiles, kWidened}},   // the same core; not measured
};

#if defined(__x86_64__)
bool has_amx_bf16() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  constexpr unsigned kAmxBf16 = 1u << 22, kAmxTile = 1u << 24;
  return (d & kAmxBf16) != 0 && (d & kAmxTile) != 0;
}

CpuInfo detect() {
  CpuInfo info;
  unsigned a = 0, words[3] = {};
  __get_cpuid(0, &a, &words[0], &words[2], &words[1]);
  char vendor[13] = {};
  std::memcpy(vendor, words, 12);
  info.vendor = vendor;
  unsigned b = 0, c = 0, d = 0;
  __get_cpuid(1, &a, &b, &c, &d);
  const int base = static_cast<int>(a >> 8 & 0xf);
  info.family = base == 0xf ? base + static_cast<int>(a >> 20 & 0xff) : base;
  info.model = static_cast<int>(a >> 4 & 0xf) | (base == 0xf || base == 6 ? static_cast<int>(a >> 16 & 0xf) << 4 : 0);

  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return info;
  info.isa = CpuIsa::avx2;
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512dq") ||
      !__builtin_cpu_supports("avx512vl")) {
    return info;
  }
  info.isa = CpuIsa::avx512;
  if (__builtin_cpu_supports("avx512bf16")) info.isa = has_amx_bf16() ? CpuIsa::amx_bf16 : CpuIsa::avx512_bf16;
  return info;
}
#else
CpuInfo detect() { return {}; }
#endif

}  // namespace

const CpuInfo& cpu_info() {
  static const CpuInfo info = detect();
  return info;
}

const CpuIsa* asked_isa() {
  static const std::optional<CpuIsa> asked = []() -> std::optional<CpuIsa> {
    const char* cap = std::getenv("DECKLE_CPU");
    if (cap == nullptr || *cap == '\0') return {};
    for (size_t isa = 0; isa < std::size(kNames); ++isa) {
      if (std::string(cap) == kNames[isa]) return static_cast<CpuIsa>(isa);
    }
    throw Error("DECKLE_CPU is '" + std::string(cap) + "' (expected sse2, avx2, avx512, avx512_bf16 or amx_bf16)");
  }();
  return asked ? &*asked : nullptr;
}

CpuIsa cpu_isa() {
  const CpuIsa* const asked = asked_isa();
  return asked != nullptr ? std::min(cpu_info().isa, *asked) : cpu_info().isa;
}

const char* name(CpuIsa isa) { return kNames[static_cast<int>(isa)]; }

const char* name(Bf16Arithmetic arithmetic) {
  constexpr const char* kArithmetics[] = {"widened to float32", "pair dot product", "AMX tiles"};
  return kArithmetics[static_cast<int>(arithmetic)];
}

CpuFamily cpu_family(const CpuInfo& info) {
  for (const KnownFamily& known : kKnown) {
    if (info.vendor == known.vendor && info.family == known.family && info.model >= known.first_model &&
        info.model <= known.last_model) {
      return known.row;
    }
  }
  // Tiles are several times as fast as FMAs wherever they are. AMD's pair dot is twice as fast, Intel's never was.
  const bool dot = info.isa >= CpuIsa::avx512_bf16 && info.vendor == "AuthenticAMD";
  const Bf16Arithmetic vectors = dot ? kPairDot : kWidened;
  return {"unknown", info.isa == CpuIsa::amx_bf16 ? kTiles : vectors, vectors};
}

Bf16Arithmetic choose_bf16(const CpuInfo& info, const CpuIsa* forced, bool tiles_granted) {
  const CpuIsa usable = forced != nullptr ? std::min(info.isa, *forced) : info.isa;
  if (usable < CpuIsa::avx512_bf16) return kWidened;
  if (forced != nullptr && *forced == usable && usable == CpuIsa::avx512_bf16) return kPairDot;
  const CpuFamily family = cpu_family(info);
  const bool tiles = usable == CpuIsa::amx_bf16 && (family.bf16 == kTiles || (forced != nullptr && *forced == usable));
  if (tiles && tiles_granted) return kTiles;
  return family.without_tiles;
}

bool amx_granted() {
#if defined(__x86_64__) && defined(__linux__)
  static const bool granted = [] {
    constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    return cpu_info().isa == CpuIsa::amx_bf16 && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  }();
  return granted;
#else
  return false;
#endif
}

int64_t cache_bytes(int level) {
  constexpr int kLevels[] = {_SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE};
  return std::max<int64_t>(sysconf(kLevels[level - 1]), 0);
}

Bf16Arithmetic bf16_arithmetic() {
  static const Bf16Arithmetic chosen = [] {
    const CpuIsa* const forced = asked_isa();
    if (choose_bf16(cpu_info(), forced, true) != kTiles) return choose_bf16(cpu_info(), forced, false);
    return choose_bf16(cpu_info(), forced, amx_granted());
  }();
  return chosen;
}

}  // namespace deckle
