// Warp and block services: register budgets, matrix moves between registers and shared memory, half conversion, 2^x,
// programmatic dependent launch.
#pragma once

#include <cstdint>

namespace deckle::kernels::cuda::arch {

/// The 16-bit element types of the tensor cores.
enum class Element { bf16, f16 };

/// Index of this thread's warpgroup, uniform: without the shuffle every shared-memory wgmma drags two register moves along.
__device__ __forceinline__ int warpgroup_index() { return __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x >> 7), 0); }

/// A value that is equal in all lanes, in a form the compiler knows to be uniform: loops that it bounds and addresses derived
/// from it then stay in uniform registers.
__device__ __forceinline__ int uniform(int value) { return __shfl_sync(0xffffffffu, value, 0); }

/// Raises or lowers this warpgroup's registers per thread (a multiple of 8 in 24..256). All counts together stay within what the
/// launch allocated, 65536 / threads rounded down to 8 a thread, or the raise waits for ever.
template <int registers>
__device__ __forceinline__ void grow_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}

template <int registers>
__device__ __forceinline__ void shrink_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}

/// Keeps the compiler from hoisting what is computed from `value`: it would hold every descriptor in registers.
__device__ __forceinline__ void forget(uint32_t& value) { asm volatile("" : "+r"(value)); }
__device__ __forceinline__ void forget(float& value) { asm volatile("" : "+f"(value)); }
__device__ __forceinline__ void forget(int& value) { asm volatile("" : "+r"(value)); }

/// Makes the compiler read memory again instead of holding it in registers.
__device__ __forceinline__ void forget_memory() { asm volatile("" ::: "memory"); }

/// Two floats rounded to nearest even, `low` in the lower half.
template <Element element>
__device__ __forceinline__ uint32_t pack(float low, float high) {
  uint32_t packed;
  if constexpr (element == Element::bf16) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  }
  return packed;
}

/// For kernels that memory limits: one serves both element types.
__device__ __forceinline__ uint32_t pack(Element element, float low, float high) {
  return element == Element::bf16 ? pack<Element::bf16>(low, high) : pack<Element::f16>(low, high);
}

/// The two floats of a packed pair.
template <Element element>
__device__ __forceinline__ float2 unpack(uint32_t packed) {
  if constexpr (element == Element::bf16) {
    return {__uint_as_float(packed << 16), __uint_as_float(packed & 0xffff0000u)};
  } else {
    float2 value;
    asm("{\n.reg .b16 l, h;\nmov.b32 {l, h}, %2;\ncvt.f32.f16 %0, l;\ncvt.f32.f16 %1, h;\n}"
        : "=f"(value.x), "=f"(value.y)
        : "r"(packed));
    return value;
  }
}

__device__ __forceinline__ float2 unpack(Element element, uint32_t packed) {
  return element == Element::bf16 ? unpack<Element::bf16>(packed) : unpack<Element::f16>(packed);
}

/// Bytes of (low, high) by four selectors: a nibble is the byte's number, or, with its upper bit, the byte's sign in all of its
/// bits.
template <uint32_t selectors>
__device__ __forceinline__ uint32_t permute_bytes(uint32_t low, uint32_t high) {
  uint32_t bytes;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(low), "r"(high), "n"(selectors));
  return bytes;
}

/// 2^x, two ulp, denormal results flushed; 2^-inf = 0.
__device__ __forceinline__ float exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// 1 / x, 1 ulp; 1 / inf = 0.
__device__ __forceinline__ float reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// The smaller one; NaN if either is.
__device__ __forceinline__ float min_or_nan(float a, float b) {
  float y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}

/// log2(x), 1 ulp of the result above |log2 x| = 1; log2(0) = -inf.
__device__ __forceinline__ float log2(float x) {
  float y;
  asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// Transposes a 4 x 4 matrix whose row `lane` (0..3) these four neighbouring lanes hold.
__device__ __forceinline__ void transpose_quad(uint32_t (&w)[4], int lane) {
  const auto trade = [&](uint32_t& a, uint32_t& b, int bit) {  // the lane without `bit` gives b for the other's a
    const bool upper = lane & bit;
    const uint32_t other = __shfl_xor_sync(0xffffffffu, upper ? a : b, bit);
    (upper ? a : b) = other;
  };
  trade(w[0], w[1], 1);
  trade(w[2], w[3], 1);
  trade(w[0], w[2], 2);
  trade(w[1], w[3], 2);
}

/// Four 8x8 blocks to shared memory: lanes 8m..8m+7 hold the row addresses of block m.
__device__ __forceinline__ void store_matrices(uint32_t address, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}

__device__ __forceinline__ void store_matrices_transposed(uint32_t address, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a), "r"(b), "r"(c),
               "r"(d)
               : "memory");
}

__device__ __forceinline__ void load_matrices(uint32_t (&m)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(address)
               : "memory");
}

__device__ __forceinline__ void load_matrices_transposed(uint32_t (&m)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(address)
               : "memory");
}

__device__ __forceinline__ float2 load_shared_pair(uint32_t address) {
  float2 v;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(address) : "memory");
  return v;
}

__device__ __forceinline__ uint32_t load_shared_word(uint32_t address) {
  uint32_t word;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(address) : "memory");
  return word;
}

__device__ __forceinline__ void store_shared_word(uint32_t address, uint32_t word) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(word) : "memory");
}

__device__ __forceinline__ float4 load_shared_quad(uint32_t address) {
  float4 v;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(address) : "memory");
  return v;
}

__device__ __forceinline__ void store_shared_quad(uint32_t address, float a, float b, float c, float d) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(a), "f"(b), "f"(c), "f"(d) : "memory");
}

/// Waits until the kernels this launch depends on have finished; returns at once without the launch attribute, or before compute
/// capability 9.0.
__device__ __forceinline__ void wait_for_dependencies() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Lets a dependent kernel start its prologue once every block has said so or ended.
__device__ __forceinline__ void launch_dependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace deckle::kernels::cuda::arch
