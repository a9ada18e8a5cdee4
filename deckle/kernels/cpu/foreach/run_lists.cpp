#include "deckle/kernels/cpu/foreach/run_lists.h"

#include <algorithm>
#include <vector>

#include "deckle/base/check.h"
#include "deckle/base/parallel.h"
#include "deckle/kernels/cpu/simd/halves.h"

namespace deckle::kernels::cpu::lists {
namespace {

constexpr int64_t kHalvesAtOnce = 1024;  // widened at a time, in L1

template <typename T>
void run_dense(RunStep<T> step, std::span<const std::span<const View>> lists, const Run& run, const double* numbers) {
  T* operands[kMaxLists];
  for (size_t j = 0; j < lists.size(); ++j) operands[j] = lists[j][run.tensor].ptr<T>() + run.begin;
  step(run.count, operands, numbers);
}

template <typename Half>
void run_halves(const ListStep& step, std::span<const std::span<const View>> lists, const Run& run, const double* numbers) {
  alignas(64) float wide[kMaxLists][kHalvesAtOnce];
  float* operands[kMaxLists];
  for (size_t j = 0; j < lists.size(); ++j) operands[j] = wide[j];
  for (int64_t done = 0; done < run.count; done += kHalvesAtOnce) {
    const int64_t count = std::min(kHalvesAtOnce, run.count - done);
    const auto half = [&](size_t j) { return lists[j][run.tensor].template ptr<Half>() + run.begin + done; };
    for (size_t j = 0; j < lists.size(); ++j) simd::widen(half(j), wide[j], count);
    step.f32(count, operands, numbers);
    for (int j = 0; j < step.written; ++j) simd::narrow(wide[j], half(static_cast<size_t>(j)), count);
  }
}

}  // namespace

std::vector<Run> runs_of(std::span<const View> tensors) {
  std::vector<Run> runs;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int64_t count = tensors[i].numel();
    for (int64_t begin = 0; begin < count; begin += kRun) runs.push_back({i, begin, std::min(kRun, count - begin)});
  }
  return runs;
}

void run_lists(const ListStep& step, std::span<const std::span<const View>> lists, const double* numbers) {
  check(!lists.empty() && lists.size() <= static_cast<size_t>(kMaxLists), "{1} lists (expected 1 to {0})", kMaxLists,
        lists.size());
  const std::vector<Run> runs = runs_of(lists[0]);
  parallel_for(static_cast<int64_t>(runs.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Run& run = runs[static_cast<size_t>(i)];
      switch (lists[0][run.tensor].dtype) {
        case DType::float32:
          run_dense<float>(step.f32, lists, run, numbers);
          break;
        case DType::float64:
          run_dense<double>(step.f64, lists, run, numbers);
          break;
        case DType::float16:
          run_halves<float16>(step, lists, run, numbers);
          break;
        case DType::bfloat16:
          run_halves<bfloat16>(step, lists, run, numbers);
          break;
        default:
          fail("a list holds {} tensors (expected a floating dtype)", name(lists[0][run.tensor].dtype));
      }
    }
  });
}

}  // namespace deckle::kernels::cpu::lists
