// Times the general kernels: general_timing [S...], TFLOP/s by the pass's own products, at D = 64 and 128.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "deckle/kernels/cuda/general_attention/kernels.h"

namespace {

namespace kernels = deckle::kernels::cuda::general;
using deckle::AttentionOperands;
using deckle::AttentionResults;
using deckle::DType;

/// The milliseconds of the fastest of a few runs.
template <typename F>
double best(F run) {
  cudaEvent_t begin, end;
  cudaEventCreate(&begin), cudaEventCreate(&end);
  double fastest = INFINITY;
  for (int n = 0; n < 4; ++n) {
    cudaEventRecord(begin), run(), cudaEventRecord(end), cudaEventSynchronize(end);
    float ms = 0;
    cudaEventElapsedTime(&ms, begin, end);
    if (n > 0) fastest = std::min<double>(fastest, ms);
  }
  return fastest;
}

struct Memory {
  std::vector<void*> blocks;
  ~Memory() {
    for (void* block : blocks) cudaFree(block);
  }
  void* take(int64_t bytes, bool numbers = true) {
    void* block = nullptr;
    if (cudaMalloc(&block, static_cast<size_t>(bytes) + 256) != cudaSuccess) return nullptr;
    blocks.push_back(block);
    cudaMemset(block, numbers ? 0x3c : 0, static_cast<size_t>(bytes));  // 0.01 or so, in every type
    return block;
  }
};

void time_case(DType dtype, int64_t length, int64_t heads, int64_t dim, bool causal) {
  Memory memory;
  const int64_t offsets[] = {0, length}, item = item_size(dtype), size = length * heads * dim;
  deckle::AttentionProblem p;
  p.dtype = dtype, p.sequences = 1, p.heads = p.kv_heads = heads, p.head_dim = p.value_dim = dim;
  p.q_offsets = p.k_offsets = offsets, p.scale = 1 / std::sqrt(static_cast<double>(dim)), p.causal = causal;
  const kernels::Metadata metadata(p);
  void* const bytes = memory.take(metadata.size());
  cudaMemcpy(bytes, metadata.bytes().data(), static_cast<size_t>(metadata.size()), cudaMemcpyHostToDevice);
  const kernels::Call call = metadata.at(bytes, nullptr, nullptr);
  const auto rows = [&] { return deckle::AttentionRows{memory.take(size * item), heads * dim, dim}; };
  const auto operands = [&] { return AttentionOperands{rows(), rows(), rows()}; };
  const auto results = [&] { return AttentionResults{rows(), memory.take(length * heads * 8)}; };
  const AttentionOperands x = operands(), t = operands(), dx = operands();
  const AttentionResults y = results(), dy = results(), ty = results();
  void* const workspace = memory.take(std::max(kernels::backward_bytes(call, dx), kernels::second_bytes(call, dx)));
  const double unit = 2.0 * static_cast<double>(length * length * heads * dim) * (causal ? 0.5 : 1) / 1e9;
  const double f = best([&] { kernels::forward(call, x, y, nullptr); }),
               b = best([&] { kernels::backward(call, x, y, dy, dx, workspace, nullptr); }),
               j = best([&] { kernels::jvp(call, x, t, {.rounded_tangent = ty.out, .lse_tangent = ty.lse}, nullptr); }),
               s = best([&] { kernels::second(call, x, t, y, dy, {}, dx, ty, workspace, nullptr); });
  fmt::print(
      "{} S {} heads {} D {}{}: forward {:.1f} backward {:.1f} (of 5 products) jvp {:.1f} (6) second {:.1f} (16)  [{:.2f} {:.2f} "
      "{:.2f} {:.2f} ms] {}\n",
      name(dtype), length, heads, dim, causal ? " causal" : "", 2 * unit / f, 5 * unit / b, 6 * unit / j, 16 * unit / s, f, b, j,
      s, cudaGetErrorString(cudaGetLastError()));
}

}  // namespace

int main() {
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float64}) {
    time_case(dtype, 4096, 16, 64, false);
    time_case(dtype, 4096, 16, 128, false);
    time_case(dtype, 4096, 16, 128, true);
  }
}
