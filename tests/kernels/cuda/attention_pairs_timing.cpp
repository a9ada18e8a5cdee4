// Times float32 by parts and forward mode: attention_pairs_timing [seconds a case]. TFLOP/s of useful work: 4 M N D of a forward,
// 12 M N D of forward mode.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "deckle/kernels/cuda/attention/second_backward.h"
#include "deckle/kernels/cuda/attention/split_backward.h"
#include "deckle/kernels/cuda/attention/split_forward.h"
#include "deckle/kernels/cuda/attention/tangent_forward.h"
#include "tests/kernels/cuda/attention_data.h"

namespace {

using namespace deckle::kernels;
using deckle::testing::DeviceBuffer;

double milliseconds(double seconds, const std::function<void()>& call) {
  DeviceBuffer flush(256 << 20);
  cudaEvent_t begin, end;
  cudaEventCreate(&begin), cudaEventCreate(&end);
  std::vector<float> times;
  double total = 0;
  while (total < seconds || times.size() < 5) {
    cudaMemsetAsync(flush.as<void>(), 0, flush.bytes(), nullptr);
    cudaEventRecord(begin, nullptr);
    call();
    cudaEventRecord(end, nullptr);
    deckle::testing::check(cudaEventSynchronize(end));
    float ms = 0;
    cudaEventElapsedTime(&ms, begin, end);
    times.push_back(ms);
    total += ms * 1e-3;
  }
  times.erase(times.begin(), times.begin() + times.size() / 3);
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

void time_case(double seconds, bool tangents, int D, int S, bool causal) {
  const int heads = 2048 / D, batch = 16384 / S;
  const int64_t rows = 16384, row = int64_t{heads} * D;
  std::vector<DeviceBuffer> memory;
  const auto tensor = [&] {
    memory.emplace_back(rows * row * (tangents ? 2 : 4));
    AttentionTensor x{memory.back().as<void>(), S * row, row, D};
    if (tangents)
      deckle::testing::fill_normal(AttentionElement::bf16, x, rows, S, heads, D, memory.size(), 1);
    else
      deckle::testing::fill_normal(memory.back().as<float>(), rows * row, memory.size(), 1);
    return x;
  };
  cuda::AttentionTangent a;
  CudaAttentionProblem& p = a.problem;
  p.sizes = {batch, heads, heads, D, D, S, S};
  if (causal) p.mask.right = 0;
  p.scale = 1 / std::sqrt(static_cast<float>(D));
  p.q = tensor(), p.k = tensor(), p.v = tensor(), p.out = tensor();
  DeviceBuffer lse(4 * rows * heads);
  p.lse = lse.as<float>();
  if (tangents) a.q = tensor(), a.k = tensor(), a.v = tensor();
  p.workspace_bytes = tangents ? cuda::tangent_attention_workspace_bytes(a) : cuda::split_attention_forward_workspace_bytes(p);
  DeviceBuffer workspace(p.workspace_bytes);
  p.workspace = workspace.as<void>();
  const double ms = milliseconds(seconds, [&] {
    if (tangents)
      cuda::tangent_attention(a, nullptr);
    else
      cuda::split_attention_forward(p, nullptr);
  });
  const double flop = (tangents ? 12.0 : 4.0) * S * S * D * heads * batch * (causal ? 0.5 : 1);
  std::printf("%-10s D%-3d S%-5d %-6s %9.3f ms %7.1f TFLOP/s\n", tangents ? "tangents" : "float32", D, S, causal ? "causal" : "",
              ms, flop / ms * 1e-9);
  std::fflush(stdout);
  if (tangents) {
    cuda::AttentionSecond b{p, a.q, a.k, a.v};
    const AttentionTensor out = tensor();
    b.problem.out = out, b.out = p.out, b.lse_tangent = p.lse;
    b.grad_out = tensor(), b.grad_out_tangent = tensor(), b.grad_q = tensor(), b.grad_k = tensor(), b.grad_v = tensor();
    b.problem.workspace_bytes = cuda::second_attention_workspace_bytes(b);
    DeviceBuffer scratch(b.problem.workspace_bytes);
    b.problem.workspace = scratch.as<void>();
    const double second = milliseconds(seconds, [&] {
      cuda::tangent_attention(a, nullptr);
      cuda::second_attention(b, nullptr);
    });
    std::printf("%-10s D%-3d S%-5d %-6s %9.3f ms %7.1f TFLOP/s (of 16 products; 27 are done)\n", "  second", D, S,
                causal ? "causal" : "", second, 32.0 / 12.0 * flop / second * 1e-9);
    std::fflush(stdout);
    return;
  }
  AttentionBackward b;
  b.problem = p;
  b.grad_out = tensor(), b.grad_q = tensor(), b.grad_k = tensor(), b.grad_v = tensor();
  b.problem.workspace_bytes = cuda::split_attention_backward_workspace_bytes(b);
  DeviceBuffer of_backward(b.problem.workspace_bytes);
  b.problem.workspace = of_backward.as<void>();
  const double backward = milliseconds(seconds, [&] { cuda::split_attention_backward(b, nullptr); });
  std::printf("%-10s D%-3d S%-5d %-6s %9.3f ms %7.1f TFLOP/s\n", "  backward", D, S, causal ? "causal" : "", backward,
              2.5 * flop / backward * 1e-9);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 0.3;
  for (const bool tangents : {false, true}) {
    for (const int D : {64, 128}) {
      for (const int S : {512, 2048, 16384}) {
        time_case(seconds, tangents, D, S, false);
        if (S > 512) time_case(seconds, tangents, D, S, true);
      }
    }
  }
}
