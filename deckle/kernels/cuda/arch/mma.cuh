// What the portable kernels need beyond warp.cuh: warp-wide matrix products and asynchronous copies as every GPU since sm_80 has
// them.
#pragma once

#include <cstdint>

#include "deckle/kernels/cuda/arch/warp.cuh"

namespace deckle::kernels::cuda::arch {

/// c[16 x 8] += a[16 x 16] b[16 x 8] of one warp. Layouts of a and c are those of wgmma's register operands; b holds rows
/// 2l..2l+1 and 2l+8..2l+9 (l = lane % 4) of column lane / 4.
template <Element element>
__device__ __forceinline__ void multiply_add(float* c, const uint32_t* a, uint32_t b0, uint32_t b1) {
  if constexpr (element == Element::bf16) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

/// Copies 16 bytes to shared memory asynchronously; writes zeros, and reads nothing, if not `valid`.
__device__ __forceinline__ void copy_async(uint32_t shared, const void* global, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(valid ? 16 : 0) : "memory");
}

/// The same for 4 bytes.
__device__ __forceinline__ void copy_word_async(uint32_t shared, const void* global, bool valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared), "l"(global), "r"(valid ? 4 : 0) : "memory");
}

__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

/// Waits for this thread's copies, but for the newest `newer` commits; a barrier makes those of others visible.
template <int newer = 0>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(newer) : "memory");
}

}  // namespace deckle::kernels::cuda::arch
