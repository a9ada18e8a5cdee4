// Products under way, and which registers nobody may touch meanwhile.
#pragma once

#include "deckle/kernels/cuda/arch/wgmma.cuh"

namespace deckle::kernels::cuda::tile {

/// What other code has written to these registers is there before the next product is issued, and is not moved behind it.
template <class... Registers>
__device__ __forceinline__ void settle(Registers&... registers) {
  (arch::pin(registers), ...);
}

/// Waits until at most `newer` batches are under way; `registers` are of those that are done. Where there is no handle to wait
/// for: of a batch issued under a condition or in the iteration before.
template <int newer = 0, class... Registers>
__device__ __forceinline__ void wait(Registers&... registers) {
  arch::wgmma_wait<newer>();
  settle(registers...);
}

/// A batch of products that `commit` has ended. Its accumulators and register operands may be read and written after `wait`.
template <class Settle>
class UnderWay {
 public:
  __device__ __forceinline__ explicit UnderWay(Settle settle) : settle_(settle) {}

  /// `newer`: batches issued after this one that may still be under way then.
  template <int newer = 0>
  __device__ __forceinline__ void wait() const {
    arch::wgmma_wait<newer>();
    settle_();
  }

 private:
  Settle settle_;
};

/// Before the first product of a batch whose registers other code has written. A batch right behind another needs none if its
/// registers were settled before that one began.
__device__ __forceinline__ void begin() { arch::wgmma_fence(); }

/// Ends a batch: the products since the one before, which write and read `registers`.
template <class... Registers>
__device__ __forceinline__ auto commit(Registers&... registers) {
  arch::wgmma_commit();
  return UnderWay([&registers...] { settle(registers...); });
}

/// begin, what `multiply` multiplies, and commit: a batch that writes and reads `registers`. Accumulators that it does not
/// overwrite, and operands, are settled before.
template <class Multiply, class... Registers>
[[nodiscard]] __device__ __forceinline__ auto issue(Multiply multiply, Registers&... registers) {
  begin();
  multiply();
  return commit(registers...);
}

}  // namespace deckle::kernels::cuda::tile
