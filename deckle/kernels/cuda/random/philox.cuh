#pragma once

// The words of base/philox.h on a GPU: a thread makes a block of four.
#include <cstdint>

#include "deckle/base/philox.h"
#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/error.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cuda/pointwise/operand.cuh"

namespace deckle::kernels::cuda::random {

struct Words {
  uint32_t word[4];
};

/// The stream as it stands now, which of a graph's work is known at each replay.
__device__ inline PhiloxStream standing(const PhiloxStream& stream) {
  if (stream.standing == nullptr) return stream;
  return {stream.standing[0], stream.standing[1] + stream.offset};
}

__device__ inline Words philox_block(const PhiloxStream& stream, uint64_t index) {
  const uint64_t counter = stream.offset + index;
  Words words{{static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0}};
  philox::rounds<10>(words.word, static_cast<uint32_t>(stream.seed), static_cast<uint32_t>(stream.seed >> 32));
  return words;
}

/// Uniform on [0, 1) with 53 bits of two words, as on CPUs.
__device__ inline double uniform_of_two(const uint32_t* words) {
  return (static_cast<double>(words[0] >> 5) * 0x1p26 + static_cast<double>(words[1] >> 6)) * 0x1p-53;
}

/// Calls function(i, words, count) for the elements i, i + 1, ... that the four words of a block are for, up to `count`.
template <int kWords, typename F>
__global__ void __launch_bounds__(256) each_block(PhiloxStream stream, int64_t count, F function) {
  const int64_t block = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x, first = block * (4 / kWords);
  if (first < count) function(first, philox_block(standing(stream), static_cast<uint64_t>(block)).word, count);
}

/// Over `count` elements of kWords words each.
template <int kWords, typename F>
void run(const Context& context, const PhiloxStream& stream, int64_t count, const F& function) {
  if (count == 0) return;
  const deckle::cuda::DeviceGuard guard(context.device);
  const int64_t blocks = (count * kWords + 3) / 4;
  each_block<kWords><<<static_cast<unsigned>((blocks + 255) / 256), 256, 0, deckle::cuda::stream_handle(context.device)>>>(
      stream, count, function);
  deckle::cuda::check_launch(context.device);
}

}  // namespace deckle::kernels::cuda::random
