#include "deckle/base/cpu_cap.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "deckle/base/error.h"

namespace deckle {
namespace {

constexpr const char* kNames[] = {"sse2", "avx2", "avx512", "avx512_bf16"};

CpuIsa detect() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return CpuIsa::sse2;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (!avx512) return CpuIsa::avx2;
  return __builtin_cpu_supports("avx512bf16") ? CpuIsa::avx512_bf16 : CpuIsa::avx512;
}

CpuIsa decide() {
  const CpuIsa present = detect();
  const char* cap = std::getenv("DECKLE_CPU");
  if (cap == nullptr || *cap == '\0') return present;
  for (int isa = 0; isa < 4; ++isa) {
    if (std::string(cap) == kNames[isa]) return std::min(present, static_cast<CpuIsa>(isa));
  }
  throw Error("DECKLE_CPU is '" + std::string(cap) + "' (expected sse2, avx2, avx512 or avx512_bf16)");
}

}  // namespace

CpuIsa cpu_isa() {
  static const CpuIsa isa = decide();
  return isa;
}

const char* name(CpuIsa isa) { return kNames[static_cast<int>(isa)]; }

}  // namespace deckle
