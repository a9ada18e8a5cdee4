// Barriers of one thread block: mbarriers, on which the copy engine and warpgroups meet, and named hardware barriers,
// on which warpgroups meet (a round trip of 88 clocks against 283 for a pair of mbarriers).
#pragma once

#include <cstdint>

namespace deckle::kernels::cuda::arch {

/// A 64-bit mbarrier in shared memory. Phases alternate: phase n completes parity n % 2.
struct alignas(8) Barrier {
  uint64_t word;
};

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

/// `count` arrivals (plus the bytes announced with expect_bytes) complete a phase. One thread; then fence_barrier_init and a
/// block barrier.
__device__ __forceinline__ void init_barrier(Barrier& barrier, uint32_t count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&barrier)), "r"(count) : "memory");
}

__device__ __forceinline__ void fence_barrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

/// Arrives and announces `bytes` that copies will deliver in this phase.
__device__ __forceinline__ void expect_bytes(Barrier& barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&barrier)), "r"(bytes) : "memory");
}

__device__ __forceinline__ void arrive(Barrier& barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&barrier)) : "memory");
}

/// Arrives in the threads where `condition` holds, without a branch: a divergent one beside in-flight wgmmas makes ptxas
/// serialise them (C7520).
__device__ __forceinline__ void arrive_if(Barrier& barrier, bool condition) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.u32 p, %1, 0;\n"
      "@p mbarrier.arrive.shared::cta.b64 _, [%0];\n"
      "}" ::"r"(shared_address(&barrier)),
      "r"(static_cast<uint32_t>(condition))
      : "memory");
}

/// Tells whoever waits for `barrier` that this warp no longer reads what it guards.
__device__ __forceinline__ void release(Barrier& barrier) {
  __syncwarp();
  arrive_if(barrier, threadIdx.x % 32 == 0);
}

/// The same for a tile that only products and other collective reads have read: the warp is together already.
__device__ __forceinline__ void release_tile(Barrier& barrier) { arrive_if(barrier, threadIdx.x % 32 == 0); }

/// Blocks until the phase of the given parity has completed; a fresh barrier lets a wait for parity 1 pass.
/// The loop is inside the asm: as a C++ loop beside in-flight wgmmas it makes ptxas spill and serialise them (C7512).
__device__ __forceinline__ void wait(Barrier& barrier, uint32_t parity) {
#ifdef DECKLE_CUDA_BOUNDED_WAITS  // a deadlock traps after seconds instead of hanging: for tests of new kernels
  asm volatile(
      "{\n"
      ".reg .pred done, again;\n"
      ".reg .u32 tries;\n"
      "mov.u32 tries, 0;\n"
      "RETRY:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1, 1000;\n"
      "@done bra DONE;\n"
      "add.u32 tries, tries, 1;\n"
      "setp.lt.u32 again, tries, 4000000;\n"
      "@again bra RETRY;\n"
      "trap;\n"
      "DONE:\n"
      "}" ::"r"(shared_address(&barrier)),
      "r"(parity)
      : "memory");
#else
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "RETRY:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra DONE;\n"
      "bra RETRY;\n"
      "DONE:\n"
      "}" ::"r"(shared_address(&barrier)),
      "r"(parity)
      : "memory");
#endif
}

/// A position in a ring of buffers, and the parity of its current round.
template <int size>
struct Ring {
  uint32_t slot = 0, parity = 0;
  __device__ __forceinline__ void advance() {
    if (++slot == size) {
      slot = 0;
      parity ^= 1;
    }
  }
};

/// Named barrier `id` (1..15; 0 is __syncthreads) over `threads` threads, arrivals and waiters counted together.
template <int threads>
__device__ __forceinline__ void named_sync(int id) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "n"(threads) : "memory");
}

/// The same; whether `mine` holds in any of them.
template <int threads>
__device__ __forceinline__ bool named_any(int id, bool mine) {
  uint32_t any;
  asm volatile(
      "{\n"
      ".reg .pred mine, any;\n"
      "setp.ne.u32 mine, %3, 0;\n"
      "bar.red.or.pred any, %1, %2, mine;\n"
      "selp.u32 %0, 1, 0, any;\n"
      "}"
      : "=r"(any)
      : "r"(id), "n"(threads), "r"(static_cast<uint32_t>(mine))
      : "memory");
  return any != 0;
}

template <int threads>
__device__ __forceinline__ void named_arrive(int id) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "n"(threads) : "memory");
}

/// Makes ordinary stores to shared memory visible to wgmma and the copy engine: each writing thread, before the barrier.
__device__ __forceinline__ void fence_shared_for_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/// The same for global memory, and between what the copy engine itself has written and will write.
__device__ __forceinline__ void fence_global_for_async() { asm volatile("fence.proxy.async.global;" ::: "memory"); }

/// A counter in global memory by which blocks hand something on: the store of one makes all that it did before visible to the
/// load of another that reads it.
__device__ __forceinline__ int load_acquire(const int* counter) {
  int value;
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(counter) : "memory");
  return value;
}

__device__ __forceinline__ void store_release(int* counter, int value) {
  asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(counter), "r"(value) : "memory");
}

}  // namespace deckle::kernels::cuda::arch
