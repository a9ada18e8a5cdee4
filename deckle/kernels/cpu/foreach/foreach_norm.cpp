// result[i] = the Euclidean norm of tensor i, float64.
//
// Squares are added in float64, in runs of 16,384 elements with eight running sums, run by run in ascending order: bit-equal for
// any number of threads.

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "deckle/base/parallel.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/view.h"

namespace deckle::kernels::cpu {
namespace {

constexpr int64_t kRun = 1 << 14;

template <typename T>
double sum_of_squares(const T* values, int64_t count) {
  double sums[8] = {};
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (int64_t lane = 0; lane < 8; ++lane) {
      const auto value = static_cast<double>(values[i + lane]);
      sums[lane] += value * value;
    }
  }
  for (; i < count; ++i) sums[0] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

}  // namespace

void foreach_norm(const Context&, std::span<const View> self, const View& result) {
  struct Run {
    size_t tensor;
    int64_t begin;
  };
  std::vector<Run> runs;
  for (size_t i = 0; i < self.size(); ++i) {
    for (int64_t begin = 0; begin < self[i].numel(); begin += kRun) runs.push_back({i, begin});
  }
  std::vector<double> partial(runs.size());
  parallel_for(static_cast<int64_t>(runs.size()), 1, [&](int64_t first, int64_t last) {
    for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(last); ++i) {
      const View& tensor = self[runs[i].tensor];
      visit_floating(tensor.dtype, [&]<typename T>(TypeTag<T>) {
        partial[i] = sum_of_squares(tensor.ptr<const T>() + runs[i].begin, std::min(kRun, tensor.numel() - runs[i].begin));
      });
    }
  });
  auto* norms = result.ptr<double>();
  std::fill_n(norms, self.size(), 0.0);
  for (size_t i = 0; i < runs.size(); ++i) norms[runs[i].tensor] += partial[i];
  for (size_t i = 0; i < self.size(); ++i) norms[i] = std::sqrt(norms[i]);
}

}  // namespace deckle::kernels::cpu
