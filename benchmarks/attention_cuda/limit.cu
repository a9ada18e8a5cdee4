// The rate of bf16 wgmma with nothing beside it: attention_cuda_limit [seconds a shape]. Prints a line of JSON for each shape.
//
// A block a multiprocessor, one to three warpgroups of 64 rows; four tiles of N x 64 random values, of which two are the negative
// of the others, so that the accumulators stay small and their digits random: what data costs of power is part of the limit. The
// first half of the time, in which the clock finds what the card's power allows, is not measured.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "deckle/base/half.h"
#include "deckle/kernels/cuda/arch/barrier.cuh"
#include "deckle/kernels/cuda/tile/matmul.cuh"
#include "deckle/kernels/cuda/tile/product.cuh"

namespace {

namespace arch = deckle::kernels::cuda::arch;
namespace tile = deckle::kernels::cuda::tile;

constexpr int kTiles = 4, kDepth = 64;

template <int N, int warpgroups>
struct SharedStorage {
  tile::SharedTile<64 * warpgroups, kDepth> a;
  tile::SharedTile<N, kDepth> b[kTiles];
};

struct Clock {
  long long cycles, nanoseconds;
};

__device__ Clock now() {
  Clock clock;
  clock.cycles = clock64();
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(clock.nanoseconds));
  return clock;
}

template <int N, int warpgroups, bool registers>
__global__ void __launch_bounds__(128 * warpgroups, 1) products(const uint4* values, int rounds, Clock* clocks, float* sink) {
  using Storage = SharedStorage<N, warpgroups>;
  extern __shared__ char memory[];
  Storage& shared = *reinterpret_cast<Storage*>((reinterpret_cast<uintptr_t>(memory) + 1023) & ~uintptr_t{1023});
  for (int i = threadIdx.x; i < static_cast<int>(sizeof(Storage) / 16); i += blockDim.x) {
    reinterpret_cast<uint4*>(&shared)[i] = values[i];
  }
  arch::fence_shared_for_async();
  __syncthreads();
  const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0);
  const tile::Operand a = tile::operand(shared.a.address(), 64 * warpgroups, 64 * warpgroup);
  uint32_t rows[kDepth / 4];
  tile::load_operand<kDepth>(rows, shared.a.address(), 64 * warpgroups, 64 * warpgroup, threadIdx.x);
  float c[N / 2] = {};
  __syncthreads();
  const Clock begin = now();
#pragma unroll 1
  for (int round = 0; round < rounds; ++round) {
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      const tile::Operand b = tile::operand(shared.b[i].address(), N);
      tile::begin();
      if constexpr (registers)
        tile::multiply_transposed<tile::Element::bf16, N, kDepth, N, false>(c, rows, b);
      else
        tile::multiply_transposed<tile::Element::bf16, N, kDepth, 64 * warpgroups, N, false>(c, a, b);
      arch::wgmma_commit();
      arch::wgmma_wait<1>();
    }
  }
  tile::wait(c, rows);
  const Clock end = now();
  if (threadIdx.x == 0) clocks[blockIdx.x] = {end.cycles - begin.cycles, end.nanoseconds - begin.nanoseconds};
  float sum = 0;
  for (float x : c) sum += x;
  if (sum == 12345.0f) *sink = sum;  // never: the products have a use
}

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "attention_cuda_limit: %s\n", cudaGetErrorString(error));
  std::exit(1);
}

template <class T>
T* allocate(size_t count) {
  T* memory;
  check(cudaMalloc(&memory, count * sizeof(T)));
  return memory;
}

template <int N, int warpgroups, bool registers>
void measure(double seconds) {
  using Storage = SharedStorage<N, warpgroups>;
  int multiprocessors = 0;
  check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
  std::vector<uint16_t> values(sizeof(Storage) / 2);
  std::mt19937 generator(std::random_device{}());
  std::normal_distribution<float> normal;
  for (uint16_t& value : values) value = deckle::bfloat16(normal(generator)).bits;
  uint16_t* b = values.data() + sizeof(Storage::a) / 2;
  const size_t half = sizeof(Storage::b) / 4;
  for (size_t i = 0; i < half; ++i) b[half + i] = b[i] ^ 0x8000;
  uint16_t* device_values = allocate<uint16_t>(values.size());
  check(cudaMemcpy(device_values, values.data(), sizeof(Storage), cudaMemcpyHostToDevice));
  Clock* clocks = allocate<Clock>(multiprocessors);
  float* sink = allocate<float>(1);

  const auto kernel = products<N, warpgroups, registers>;
  const int bytes = sizeof(Storage) + 1024, launches = 14;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  const double flop_of_round = 2.0 * 64 * N * kDepth * kTiles * warpgroups * multiprocessors;
  const int rounds = static_cast<int>(seconds / launches * 8e14 / flop_of_round) + 1;
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin)), check(cudaEventCreate(&end));
  for (int launch = 0; launch < launches; ++launch) {
    if (launch == launches / 2) check(cudaEventRecord(begin));
    kernel<<<multiprocessors, 128 * warpgroups, bytes>>>(reinterpret_cast<const uint4*>(device_values), rounds, clocks, sink);
    check(cudaGetLastError());
  }
  check(cudaEventRecord(end));
  check(cudaEventSynchronize(end));
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin, end));
  Clock last;
  check(cudaMemcpy(&last, clocks, sizeof(last), cudaMemcpyDeviceToHost));
  std::printf("{\"operands\": \"%s\", \"n\": %d, \"warpgroups\": %d, \"tflops\": %.1f, \"mhz\": %.0f}\n",
              registers ? "A in registers" : "both in shared memory", N, warpgroups,
              flop_of_round * rounds * (launches - launches / 2) / milliseconds * 1e-9, 1e3 * last.cycles / last.nanoseconds);
  std::fflush(stdout);
  check(cudaFree(device_values)), check(cudaFree(clocks)), check(cudaFree(sink));
}

template <int N>
void measure_width(double seconds) {
  measure<N, 1, false>(seconds), measure<N, 2, false>(seconds), measure<N, 3, false>(seconds);
  measure<N, 1, true>(seconds), measure<N, 2, true>(seconds);
  if constexpr (N < 256) measure<N, 3, true>(seconds);  // of 168 registers 128 are accumulators
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 1.0;
  measure_width<64>(seconds), measure_width<128>(seconds), measure_width<256>(seconds);
}
