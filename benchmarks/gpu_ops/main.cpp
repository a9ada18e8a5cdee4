// Times of ops on a GPU: large tensors as bytes moved per second, small ones as host time per call. One line an op:
//   name <tab> milliseconds (median of the rounds) <tab> GB/s, counting every operand read once and every result written once
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "deckle/deckle.h"

namespace {

using namespace deckle;

const Device kGpu = Device::cuda();

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Seconds of one call: the queue is filled with several, then waited for.
double seconds(const std::function<void()>& call) {
  constexpr int kCalls = 20, kRounds = 20;
  std::vector<double> rounds;
  for (int round = 0; round < kRounds + 2; ++round) {
    synchronize(kGpu);
    const double start = now();
    for (int i = 0; i < kCalls; ++i) call();
    synchronize(kGpu);
    if (round >= 2) rounds.push_back((now() - start) / kCalls);
  }
  return median(rounds);
}

void report(const std::string& name, double bytes, const std::function<void()>& call) {
  const double time = seconds(call);
  std::printf("%s\t%.4f\t%.0f\n", name.c_str(), time * 1e3, bytes / time / 1e9);
  std::fflush(stdout);
}

void large(DType dtype) {
  const std::string suffix = dtype == DType::float32 ? "" : " " + std::string(name(dtype));
  const auto item = static_cast<double>(item_size(dtype));
  constexpr int64_t kRows = 1 << 16, kWidth = 1 << 10, kCount = kRows * kWidth;
  const double all = item * kCount;
  const NoGrad no_grad;
  const Tensor x = randn({kRows, kWidth}, {}, kGpu).to(dtype), y = randn({kRows, kWidth}, {}, kGpu).to(dtype);
  const Tensor w = randn({kWidth}, {}, kGpu).to(dtype), b = randn({kWidth}, {}, kGpu).to(dtype);
  report("copy" + suffix, 2 * all, [&] { clone(x); });
  report("add" + suffix, 3 * all, [&] { add(x, y); });
  report("mul by a number" + suffix, 2 * all, [&] { x * 1.5; });
  report("add a row" + suffix, 2 * all, [&] { add(x, w); });
  report("gelu" + suffix, 2 * all, [&] { gelu(x); });
  report("tanh" + suffix, 2 * all, [&] { tanh(x); });
  report("maximum" + suffix, 3 * all, [&] { maximum(x, y); });
  report("to float32" + suffix, all + 4.0 * kCount, [&] { x.to(dtype == DType::float32 ? DType::bfloat16 : DType::float32); });
  report("sum of all" + suffix, all, [&] { sum(x); });
  report("sum of rows" + suffix, all, [&] { sum(x, Ints{1}); });
  report("sum of columns" + suffix, all, [&] { sum(x, Ints{0}); });
  report("amax of rows" + suffix, all, [&] { amax(x, Ints{1}); });
  report("softmax" + suffix, 2 * all, [&] { softmax(x, 1); });
  report("layer_norm" + suffix, 2 * all, [&] { layer_norm(x, w, b); });
  report("rms_norm" + suffix, 2 * all, [&] { rms_norm(x, w); });
  report("transposed copy" + suffix, 2 * all, [&] { clone(x.t()); });
}

void products() {
  const NoGrad no_grad;
  for (const DType dtype : {DType::bfloat16, DType::float32}) {
    constexpr int64_t kSize = 4096;
    const Tensor a = randn({kSize, kSize}, {}, kGpu).to(dtype), b = randn({kSize, kSize}, {}, kGpu).to(dtype);
    const double time = seconds([&] { mm(a, b); });
    std::printf("mm 4096 %s\t%.4f\t%.1f TFLOP/s\n", std::string(name(dtype)).c_str(), time * 1e3,
                2e-12 * kSize * kSize * kSize / time);
  }
}

/// Host time of a call on small tensors; the queue never fills.
void small() {
  const Tensor x = randn({32, 32}, {}, kGpu), y = randn({32, 32}, {}, kGpu);
  const Tensor leaf = randn({32, 32}, {}, kGpu).requires_grad_();
  const auto host = [&](const char* name, const std::function<void()>& call) {
    constexpr int kCalls = 200, kRounds = 50;
    std::vector<double> rounds;
    for (int round = 0; round < kRounds + 2; ++round) {
      synchronize(kGpu);
      const double start = now();
      for (int i = 0; i < kCalls; ++i) call();
      if (round >= 2) rounds.push_back((now() - start) / kCalls);
    }
    std::printf("host time of %s\t%.2f us\n", name, median(rounds) * 1e6);
  };
  host("empty", [] { empty({32, 32}, DType::float32, kGpu); });
  host("add", [&] { add(x, y); });
  host("add, recorded", [&] { add(leaf, y); });
  host("sum of rows", [&] { sum(x, Ints{1}); });
  host("mm", [&] { mm(x, y); });
}

}  // namespace

int main() try {
  large(DType::float32);
  large(DType::bfloat16);
  products();
  small();
  std::printf("peak memory\t%.2f GB\n", static_cast<double>(memory_stats(kGpu).peak) * 1e-9);
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
