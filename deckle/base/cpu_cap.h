#pragma once

#include <cstdint>

namespace deckle {

/// Instruction sets that kernels come in, weakest first.
enum class CpuIsa : uint8_t { sse2, avx2, avx512, avx512_bf16 };

/// The strongest instruction set that this process may use: what the CPU has, capped by the environment variable
/// DECKLE_CPU (sse2, avx2, avx512, avx512_bf16). Read once; an unknown value is an Error.
CpuIsa cpu_isa();

const char* name(CpuIsa isa);

}  // namespace deckle
