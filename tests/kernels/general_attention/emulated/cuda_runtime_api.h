// Enough of CUDA to run kernels as plain C++, block by block: the threads of a block are fibres of one thread, and a barrier
// hands over to the next of them. Found in place of the toolkit's header by the targets that ask for it.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __forceinline__ inline
#define __launch_bounds__(...)

using cudaStream_t = void*;

struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

namespace emulated {

/// Runs `body` for every thread of every block.
void run(dim3 grid, unsigned threads, const std::function<void()>& body);
/// Waits for all threads of the block that still run.
void barrier();
/// The sum of a number of each thread.
int barrier_count(int value);
/// `value` of the thread whose lane is this one's, exclusive or `mask`.
uint64_t exchange(uint64_t value, unsigned mask);

extern dim3 thread, block, blocks;

}  // namespace emulated

#define threadIdx emulated::thread
#define blockIdx emulated::block
#define gridDim emulated::blocks

inline void __syncthreads() { emulated::barrier(); }
inline int __syncthreads_or(int value) { return emulated::barrier_count(value != 0) != 0; }

template <typename T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = emulated::exchange(bits, static_cast<unsigned>(mask));
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

inline float __int_as_float(int bits) { return std::bit_cast<float>(bits); }
using std::exp, std::log, std::tanh, std::fmax, std::min, std::max;
