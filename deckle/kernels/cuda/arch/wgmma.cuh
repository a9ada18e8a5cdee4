// Warpgroup matrix multiply-accumulate: d[64 x N] (+)= a[64 x 16] b[16 x N], float32 accumulators.
//
// Rate 4096 FLOP a clock and SM for every N >= 64; a chain has a latency of its tensor time + 55 clocks. A shared-memory A
// operand is read again by each instruction, so N = 64 from shared memory uses the whole shared-memory bandwidth; A from
// registers never does. Accumulator i of lane l in warp w of the warpgroup: row 16w + l/4 + 8((i/2)%2), column 8(i/4) + 2(l%4) +
// i%2. A fragment from registers: accumulators 8s .. 8s+7 packed in pairs are exactly the operand of step s.
#pragma once

#include <cstdint>

#include "deckle/kernels/cuda/arch/warp.cuh"

namespace deckle::kernels::cuda::arch {

/// Orders register writes before the wgmmas that follow.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

/// Blocks until at most `pending` committed groups are in flight.
template <int pending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

/// Keeps ptxas from moving code that touches `registers` across this point: after a wait, and before a fence once other code
/// wrote them.
template <int count>
__device__ __forceinline__ void pin(float (&registers)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) asm volatile("" : "+f"(registers[i])::"memory");
}

template <int count>
__device__ __forceinline__ void pin(uint32_t (&registers)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) asm volatile("" : "+r"(registers[i])::"memory");
}

/// How the contraction dim lies in shared memory: contiguous, or as the row index (the operand is then read transposed).
enum class Major { contraction, other };

/// Instructions of width N: `shared` takes both operands as descriptors, `registers` takes A from four registers. With
/// `overwrite` the accumulators are only written.
template <Element element, int N>
struct Wgmma;

// clang-format off
#define DECKLE_R16_0 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define DECKLE_R16_1 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define DECKLE_R16_2 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define DECKLE_R16_3 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define DECKLE_R16_4 "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define DECKLE_R16_5 "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define DECKLE_R16_6 "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111"
#define DECKLE_R16_7 "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define DECKLE_R8_2 "%16, %17, %18, %19, %20, %21, %22, %23"
#define DECKLE_R8_4 "%32, %33, %34, %35, %36, %37, %38, %39"
#define DECKLE_R8_6 "%48, %49, %50, %51, %52, %53, %54, %55"
#define DECKLE_R8_10 "%80, %81, %82, %83, %84, %85, %86, %87"
#define DECKLE_D8(C, i) C(d[i]), C(d[i + 1]), C(d[i + 2]), C(d[i + 3]), C(d[i + 4]), C(d[i + 5]), C(d[i + 6]), C(d[i + 7])
#define DECKLE_D16(C, i) DECKLE_D8(C, i), DECKLE_D8(C, i + 8)
#define DECKLE_REGISTERS_32 DECKLE_R16_0
#define DECKLE_OUTPUTS_32(C) DECKLE_D16(C, 0)
#define DECKLE_REGISTERS_48 DECKLE_R16_0 ", " DECKLE_R8_2
#define DECKLE_OUTPUTS_48(C) DECKLE_D16(C, 0), DECKLE_D8(C, 16)
#define DECKLE_REGISTERS_64 DECKLE_R16_0 ", " DECKLE_R16_1
#define DECKLE_OUTPUTS_64(C) DECKLE_D16(C, 0), DECKLE_D16(C, 16)
#define DECKLE_REGISTERS_80 DECKLE_R16_0 ", " DECKLE_R16_1 ", " DECKLE_R8_4
#define DECKLE_OUTPUTS_80(C) DECKLE_D16(C, 0), DECKLE_D16(C, 16), DECKLE_D8(C, 32)
#define DECKLE_REGISTERS_96 DECKLE_R16_0 ", " DECKLE_R16_1 ", " DECKLE_R16_2
#define DECKLE_OUTPUTS_96(C) DECKLE_D16(C, 0), DECKLE_D16(C, 16), DECKLE_D16(C, 32)
#define DECKLE_REGISTERS_112 DECKLE_R16_0 ", " DECKLE_R16_1 ", " DECKLE_R16_2 ", " DECKLE_R8_6
#define DECKLE_OUTPUTS_112(C) DECKLE_D16(C, 0), DECKLE_D16(C, 16), DECKLE_D16(C, 32), DECKLE_D8(C, 48)
#define DECKLE_REGISTERS_128 DECKLE_R16_0 ", " DECKLE_R16_1 ", " DECKLE_R16_2 ", " DECKLE_R16_3
#define DECKLE_OUTPUTS_128(C) DECKLE_D16(C, 0), DECKLE_D16(C, 16), DECKLE_D16(C, 32), DECKLE_D16(C, 48)
#define DECKLE_REGISTERS_160 DECKLE_R16_0 ", " DECKLE_R16_1 ", " DECKLE_R16_2 ", " DECKLE_R16_3 ", " DECKLE_R16_4
#define DECKLE_OUTPUTS_160(C) DECKLE_D16(C, 0), DECKLE_D16(C, 16), DECKLE_D16(C, 32), DECKLE_D16(C, 48), DECKLE_D16(C, 64)
#define DECKLE_REGISTERS_176 DECKLE_REGISTERS_160 ", " DECKLE_R8_10
#define DECKLE_OUTPUTS_176(C) DECKLE_OUTPUTS_160(C), DECKLE_D8(C, 80)
#define DECKLE_REGISTERS_192 DECKLE_REGISTERS_160 ", " DECKLE_R16_5
#define DECKLE_OUTPUTS_192(C) DECKLE_OUTPUTS_160(C), DECKLE_D16(C, 80)
#define DECKLE_REGISTERS_256 DECKLE_REGISTERS_192 ", " DECKLE_R16_6 ", " DECKLE_R16_7
#define DECKLE_OUTPUTS_256(C) DECKLE_OUTPUTS_192(C), DECKLE_D16(C, 96), DECKLE_D16(C, 112)

#define DECKLE_WGMMA_SHARED(N, TYPE, SCALE, C, A, B, TA, TB)                                                                 \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " SCALE ", 0;\n"                                                            \
               "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" DECKLE_REGISTERS_##N "}, "                \
               A ", " B ", p, 1, 1, " TA ", " TB ";\n}"                                                                       \
               : DECKLE_OUTPUTS_##N(C) : "l"(a), "l"(b), "n"(major_a == Major::other), "n"(major_b == Major::other))
#define DECKLE_WGMMA_REGISTERS(N, TYPE, SCALE, C, A0, A1, A2, A3, B, TB)                                                      \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " SCALE ", 0;\n"                                                            \
               "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" DECKLE_REGISTERS_##N "}, {"               \
               A0 ", " A1 ", " A2 ", " A3 "}, " B ", p, 1, 1, " TB ";\n}"                                                     \
               : DECKLE_OUTPUTS_##N(C) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "n"(major_b == Major::other))
#define DECKLE_WRITE(x) "=f"(x)
#define DECKLE_ACCUMULATE(x) "+f"(x)
#define DECKLE_WGMMA(ELEMENT, TYPE, N, I0, I1, I2, I3, I4, I5)                                                                \
  template <> struct Wgmma<ELEMENT, N> {                                                                                     \
    template <Major major_a, Major major_b, bool overwrite>                                                                  \
    static __device__ __forceinline__ void shared(float (&d)[N / 2], uint64_t a, uint64_t b) {                               \
      if constexpr (overwrite) DECKLE_WGMMA_SHARED(N, TYPE, "0", DECKLE_WRITE, I0, I1, I2, I3);                               \
      else DECKLE_WGMMA_SHARED(N, TYPE, "1", DECKLE_ACCUMULATE, I0, I1, I2, I3);                                              \
    }                                                                                                                        \
    template <Major major_b, bool overwrite>                                                                                 \
    static __device__ __forceinline__ void registers(float (&d)[N / 2], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,  \
                                                     uint64_t b) {                                                           \
      if constexpr (overwrite) DECKLE_WGMMA_REGISTERS(N, TYPE, "0", DECKLE_WRITE, I0, I1, I2, I3, I4, I5);                    \
      else DECKLE_WGMMA_REGISTERS(N, TYPE, "1", DECKLE_ACCUMULATE, I0, I1, I2, I3, I4, I5);                                   \
    }                                                                                                                        \
  };
#define DECKLE_WGMMA_BOTH(...) DECKLE_WGMMA(Element::bf16, "bf16", __VA_ARGS__) DECKLE_WGMMA(Element::f16, "f16", __VA_ARGS__)
DECKLE_WGMMA_BOTH(32, "%16", "%17", "%18", "%19", "%20", "%21")
DECKLE_WGMMA_BOTH(48, "%24", "%25", "%26", "%27", "%28", "%29")
DECKLE_WGMMA_BOTH(64, "%32", "%33", "%34", "%35", "%36", "%37")
DECKLE_WGMMA_BOTH(80, "%40", "%41", "%42", "%43", "%44", "%45")
DECKLE_WGMMA_BOTH(96, "%48", "%49", "%50", "%51", "%52", "%53")
DECKLE_WGMMA_BOTH(112, "%56", "%57", "%58", "%59", "%60", "%61")
DECKLE_WGMMA_BOTH(128, "%64", "%65", "%66", "%67", "%68", "%69")
DECKLE_WGMMA_BOTH(160, "%80", "%81", "%82", "%83", "%84", "%85")
DECKLE_WGMMA_BOTH(176, "%88", "%89", "%90", "%91", "%92", "%93")
DECKLE_WGMMA_BOTH(192, "%96", "%97", "%98", "%99", "%100", "%101")
DECKLE_WGMMA_BOTH(256, "%128", "%129", "%130", "%131", "%132", "%133")
#undef DECKLE_R16_0
#undef DECKLE_R16_1
#undef DECKLE_R16_2
#undef DECKLE_R16_3
#undef DECKLE_R16_4
#undef DECKLE_R16_5
#undef DECKLE_R16_6
#undef DECKLE_R16_7
#undef DECKLE_R8_2
#undef DECKLE_R8_4
#undef DECKLE_R8_6
#undef DECKLE_R8_10
#undef DECKLE_D8
#undef DECKLE_D16
#undef DECKLE_REGISTERS_32
#undef DECKLE_REGISTERS_48
#undef DECKLE_REGISTERS_64
#undef DECKLE_REGISTERS_80
#undef DECKLE_REGISTERS_96
#undef DECKLE_REGISTERS_112
#undef DECKLE_REGISTERS_128
#undef DECKLE_REGISTERS_160
#undef DECKLE_REGISTERS_176
#undef DECKLE_REGISTERS_192
#undef DECKLE_REGISTERS_256
#undef DECKLE_OUTPUTS_32
#undef DECKLE_OUTPUTS_48
#undef DECKLE_OUTPUTS_64
#undef DECKLE_OUTPUTS_80
#undef DECKLE_OUTPUTS_96
#undef DECKLE_OUTPUTS_112
#undef DECKLE_OUTPUTS_128
#undef DECKLE_OUTPUTS_160
#undef DECKLE_OUTPUTS_176
#undef DECKLE_OUTPUTS_192
#undef DECKLE_OUTPUTS_256
#undef DECKLE_WGMMA_SHARED
#undef DECKLE_WGMMA_REGISTERS
#undef DECKLE_WRITE
#undef DECKLE_ACCUMULATE
#undef DECKLE_WGMMA
#undef DECKLE_WGMMA_BOTH
// clang-format on

}  // namespace deckle::kernels::cuda::arch
