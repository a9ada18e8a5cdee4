// The bulk copy engine (TMA): boxes of up to four dims between global and shared memory, by one thread.
// Rows outside the map arrive as zeros, count as delivered bytes, and are not stored.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "deckle/kernels/cuda/arch/barrier.cuh"

namespace deckle::kernels::cuda::arch {

/// L2 eviction priorities of one copy.
enum class CacheHint : uint64_t {
  normal = 0x1000000000000000ull,
  evict_first = 0x12F0000000000000ull,
  evict_last = 0x14F0000000000000ull,
};

/// Loads the box at (column, row, head, batch) to `shared`, completing on `barrier`, which expects the whole box's bytes.
__device__ __forceinline__ void load_box(uint32_t shared, const CUtensorMap& map, Barrier& barrier, int column, int row, int head,
                                         int batch, CacheHint hint = CacheHint::normal) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint"
      " [%0], [%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(shared),
      "l"(reinterpret_cast<uint64_t>(&map)), "r"(shared_address(&barrier)), "r"(column), "r"(row), "r"(head), "r"(batch),
      "l"(static_cast<uint64_t>(hint))
      : "memory");
}

/// Stores the box at `shared` to (column, row, head, batch). Writers: fence_shared_for_async, a barrier, then one thread stores.
__device__ __forceinline__ void store_box(const CUtensorMap& map, uint32_t shared, int column, int row, int head, int batch) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(
                   reinterpret_cast<uint64_t>(&map)),
               "r"(shared), "r"(column), "r"(row), "r"(head), "r"(batch)
               : "memory");
}

/// Loads `bytes` (a multiple of 16, 16-byte aligned on both sides) of consecutive memory.
__device__ __forceinline__ void load_bulk(uint32_t shared, const void* global, uint32_t bytes, Barrier& barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared),
               "l"(global), "r"(bytes), "r"(shared_address(&barrier))
               : "memory");
}

/// Stores `bytes` (a multiple of 16, 16-byte aligned on both sides) of shared memory.
__device__ __forceinline__ void store_bulk(void* global, uint32_t shared, uint32_t bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(global), "r"(shared), "r"(bytes) : "memory");
}

/// Adds `bytes` of float32 in shared memory to global memory; copies in flight together are added in any order.
__device__ __forceinline__ void reduce_add_bulk(float* global, uint32_t shared, uint32_t bytes) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(global), "r"(shared), "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void commit_stores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

/// The shared memory of all but the newest `pending` store groups may be overwritten.
template <int pending = 0>
__device__ __forceinline__ void wait_stores_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(pending) : "memory");
}

/// All but the newest `pending` store groups are complete in global memory.
template <int pending = 0>
__device__ __forceinline__ void wait_stores() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(pending) : "memory");
}

}  // namespace deckle::kernels::cuda::arch
