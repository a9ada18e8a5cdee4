// Times the attention backward alone: attention_backward_timing [seconds per case] [filter]. TFLOP/s by 10 M N D per (row, key)
// pair. The inputs are random normal; out and lse only resemble a forward's, which changes no instruction.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "deckle/kernels/cuda/attention/backward.h"
#include "tests/kernels/cuda/attention_data.h"

namespace {

using namespace deckle::kernels;

void check(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(status));
}

template <typename T = void>
T* allocate(int64_t bytes) {
  void* data = nullptr;
  check(cudaMalloc(&data, std::max<int64_t>(bytes, 256)));
  return static_cast<T*>(data);
}

struct Timing {
  std::string name;
  int D, Dv, heads, kv_heads;
  std::vector<int> lengths;
  bool ragged, causal;
};

std::vector<int> lognormal(int count, double m, int max) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  std::vector<int> lengths;
  for (int i = 0; i < count; ++i)
    lengths.push_back(static_cast<int>(std::clamp(m * std::exp(0.8 * normal(random)), 4.0, double(max))));
  return lengths;
}

void time_case(const Timing& t, double seconds) {
  const int batch = static_cast<int>(t.lengths.size());
  std::vector<int64_t> offsets{0};
  double pairs = 0;
  for (int length : t.lengths) {
    offsets.push_back(offsets.back() + length);
    pairs += t.causal ? 0.5 * length * length : 1.0 * length * length;
  }
  const int64_t rows = offsets.back();
  AttentionBackward a;
  auto& p = a.problem;
  p.sizes = {batch,   t.heads, t.kv_heads, t.D, t.Dv, t.ragged ? rows : t.lengths[0], t.ragged ? rows : t.lengths[0],
             nullptr, nullptr};
  p.mask = {kUnboundedWindow, t.causal ? 0 : kUnboundedWindow, true};
  p.scale = 1.0f / std::sqrt(static_cast<float>(t.D));
  std::vector<void*> owned;
  const auto tensor = [&](int heads, int dim, float scale) {
    AttentionTensor x;
    x.row_stride = int64_t{heads} * dim;
    x.head_stride = dim;
    x.batch_stride = x.row_stride * t.lengths[0];
    x.data = allocate(2 * rows * x.row_stride);
    owned.push_back(x.data);
    deckle::testing::fill_normal(p.element, {x.data, 0, x.row_stride, x.head_stride}, rows, rows, heads, dim, owned.size(),
                                 scale);
    return x;
  };
  p.q = tensor(t.heads, t.D, 1);
  p.k = tensor(t.kv_heads, t.D, 1);
  p.v = tensor(t.kv_heads, t.Dv, 1);
  p.out = tensor(t.heads, t.Dv, 0.05f);
  a.grad_out = tensor(t.heads, t.Dv, 1);
  a.grad_q = tensor(t.heads, t.D, 1);
  a.grad_k = tensor(t.kv_heads, t.D, 1);
  a.grad_v = tensor(t.kv_heads, t.Dv, 1);
  std::vector<float> lse(rows * t.heads, std::log(static_cast<float>(t.lengths[0])) + 0.5f);
  p.lse = allocate<float>(4 * lse.size());
  check(cudaMemcpy(p.lse, lse.data(), 4 * lse.size(), cudaMemcpyHostToDevice));
  auto* device_offsets = allocate<int64_t>(8 * (batch + 1));
  check(cudaMemcpy(device_offsets, offsets.data(), 8 * (batch + 1), cudaMemcpyHostToDevice));
  if (t.ragged) p.sizes.query_offsets = p.sizes.key_offsets = device_offsets;
  p.workspace_bytes = cuda::attention_backward_workspace_bytes(a);
  p.workspace = allocate(p.workspace_bytes);
  const int64_t flush_bytes = 256 << 20;
  void* flush = allocate(flush_bytes);

  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin));
  check(cudaEventCreate(&end));
  std::vector<float> times;
  double total = 0;
  while (total < seconds || times.size() < 5) {
    check(cudaMemsetAsync(flush, 0, flush_bytes, nullptr));
    check(cudaEventRecord(begin, nullptr));
    cuda::attention_backward(a, nullptr);
    check(cudaEventRecord(end, nullptr));
    check(cudaEventSynchronize(end));
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin, end));
    times.push_back(ms);
    total += ms * 1e-3;
  }
  times.erase(times.begin(), times.begin() + times.size() / 3);  // the card's clock settles first
  std::sort(times.begin(), times.end());
  const double ms = times[times.size() / 2], flop = pairs * t.heads * (6.0 * t.D + 4.0 * t.Dv);
  std::printf("%-28s %9.3f ms %7.1f TFLOP/s  (fastest %.1f, %zu runs)\n", t.name.c_str(), ms, flop / ms * 1e-9,
              flop / times[0] * 1e-9, times.size());
  std::fflush(stdout);
  for (void* data : owned) cudaFree(data);
  cudaFree(p.lse);
  cudaFree(device_offsets);
  cudaFree(p.workspace);
  cudaFree(flush);
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 0.4;
  const char* filter = argc > 2 ? argv[2] : "";
  const auto dense = [](const char* name, int D, int Dv, int S, bool causal) {
    return Timing{name, D, Dv, 2048 / D, 2048 / D, std::vector<int>(16384 / S, S), false, causal};
  };
  const std::vector<Timing> cases = {
      dense("D128 S16k", 128, 128, 16384, false),
      dense("D128 S16k causal", 128, 128, 16384, true),
      dense("D128 S2k", 128, 128, 2048, false),
      dense("D128 S1k", 128, 128, 1024, false),
      dense("D128 S512", 128, 128, 512, false),
      dense("D128 S4k causal", 128, 128, 4096, true),
      dense("D64 S16k", 64, 64, 16384, false),
      dense("D64 S2k causal", 64, 64, 2048, true),
      dense("D64 S16k causal", 64, 64, 16384, true),
      dense("D256 S4k", 256, 256, 4096, false),
      dense("D96 S4k", 96, 96, 4096, false),
      dense("D192 S4k", 192, 192, 4096, false),
      dense("D192/128 S4k", 192, 128, 4096, false),
      {"D128 S4k causal, 4 kv heads", 128, 128, 16, 4, std::vector<int>(4, 4096), false, true},
      {"MQA 32/1, one of 4096", 128, 128, 32, 1, {4096}, true, false},
      {"ragged 64, D128 H16", 128, 128, 16, 16, lognormal(64, 800, 8192), true, false},
      {"ragged 512, D64 H12", 64, 64, 12, 12, lognormal(512, 40, 512), true, false},
  };
  try {
    for (const Timing& t : cases) {
      if (t.name.find(filter) != std::string::npos) time_case(t, seconds);
    }
  } catch (const std::exception& e) {
    std::printf("%s\n", e.what());
    return 1;
  }
}
