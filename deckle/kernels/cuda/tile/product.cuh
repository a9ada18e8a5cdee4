// Products under way, and which registers nobody may touch meanwhile.
#pragma once

#include "deckle/kernels/cuda/arch/wgmma.cuh"

namespace deckle::kernels::cuda::tile {

/// What other code has written to these registers is there before the next product is issued, and is not moved behind it.
template <class... Registers>
__device__ __forceinline__ void settle(Registers&... registers) {
  (arch::pin(registers), ...);
}

/// A batch of products that `issue` has returned. Its accumulators and register operands may be read and written after `wait`.
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

/// Issues what `multiply` multiplies as one batch, which writes and reads `registers`. Accumulators that it does not overwrite,
/// and operands, are settled before.
template <class Multiply, class... Registers>
[[nodiscard]] __device__ __forceinline__ auto issue(Multiply multiply, Registers&... registers) {
  arch::wgmma_fence();
  multiply();
  arch::wgmma_commit();
  return UnderWay([&registers...] { settle(registers...); });
}

}  // namespace deckle::kernels::cuda::tile
