#pragma once

#include <cstdint>
#include <string>

namespace deckle {

/// Instruction sets that kernels come in, weakest first. amx_bf16 is avx512_bf16 with the tile unit.
enum class CpuIsa : uint8_t { sse2, avx2, avx512, avx512_bf16, amx_bf16 };

/// The strongest instruction set that this process may use: what the CPU has, capped by the environment variable
/// DECKLE_CPU (sse2, avx2, avx512, avx512_bf16, amx_bf16). Read once, when Deckle is loaded; an unknown value is an Error.
CpuIsa cpu_isa();

/// The value of DECKLE_CPU, or null where it is not set.
const CpuIsa* asked_isa();

const char* name(CpuIsa isa);

/// In what products of bfloat16 are computed: in float32 after widening, by the pair dot product of AVX512-BF16, or on AMX tiles.
enum class Bf16Arithmetic : uint8_t { widened, pair_dot, tiles };

const char* name(Bf16Arithmetic arithmetic);

/// What a processor says of itself.
struct CpuInfo {
  std::string vendor;  // "GenuineIntel", "AuthenticAMD", ...
  int family = 0, model = 0;
  CpuIsa isa = CpuIsa::sse2;
};

/// This machine's.
const CpuInfo& cpu_info();

/// A row of the table of processors. What is fast is known by family: an instruction that is there may be slow, and a measurement
/// at start would make bits differ from run to run.
struct CpuFamily {
  const char* name;
  Bf16Arithmetic bf16;           // of attention and of matrix products
  Bf16Arithmetic without_tiles;  // where the system refuses the tiles
};

/// The row of a processor; one that is not in the table gets a row made of what it reports.
CpuFamily cpu_family(const CpuInfo& info);

/// What the table says for `info`. `forced`: the value of DECKLE_CPU or null; a set that the processor has is taken though it
/// is slow. `tiles_granted`: whether the system lets the process use tiles.
Bf16Arithmetic choose_bf16(const CpuInfo& info, const CpuIsa* forced, bool tiles_granted);

/// Asks the system once for the permission to use AMX tiles; false where there are none or it refuses. Threads inherit it.
bool amx_granted();

/// What this process computes products of bfloat16 in; asks for tiles where they are the choice.
Bf16Arithmetic bf16_arithmetic();

/// Bytes of the data cache of a level, 1 to 3, of one core, as the system tells; 0 where it does not.
int64_t cache_bytes(int level);

}  // namespace deckle
