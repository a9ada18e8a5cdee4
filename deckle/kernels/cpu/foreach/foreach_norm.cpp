// foreach_norm: result[i] = the Euclidean norm of tensor i; foreach_dot: the sum of products of tensors i. float64.
//
// Products are added in float64, in runs of 16,384 elements with eight running sums, run by run in ascending order: bit-equal for
// any number of threads.

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "deckle/base/check.h"
#include "deckle/base/parallel.h"
#include "deckle/base/scratch.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/view.h"

namespace deckle::kernels::cpu {
namespace {

constexpr int64_t kRun = 1 << 14;

template <typename T, typename U>
double sum_of_products(const T* a, const U* b, int64_t count) {
  double sums[8] = {};
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (int64_t lane = 0; lane < 8; ++lane) sums[lane] += static_cast<double>(a[i + lane]) * static_cast<double>(b[i + lane]);
  }
  for (; i < count; ++i) sums[0] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

/// result[i] = the sum of products of a[i] and b[i], of one size and one dtype.
void add_products(std::span<const View> a, std::span<const View> b, double* result) {
  struct Run {
    size_t tensor;
    int64_t begin;
  };
  std::vector<Run> runs;
  for (size_t i = 0; i < a.size(); ++i) {
    for (int64_t begin = 0; begin < a[i].numel(); begin += kRun) runs.push_back({i, begin});
  }
  Scratch scratch;
  auto* const partial = scratch.take<double>(std::ssize(runs));
  parallel_for(static_cast<int64_t>(runs.size()), 1, [&](int64_t first, int64_t last) {
    for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(last); ++i) {
      const Run run = runs[i];
      const View &x = a[run.tensor], &y = b[run.tensor];
      const int64_t count = std::min(kRun, x.numel() - run.begin);
      visit_floating(x.dtype, [&]<typename T>(TypeTag<T>) {
        partial[i] = sum_of_products(x.ptr<const T>() + run.begin, y.ptr<const T>() + run.begin, count);
      });
    }
  });
  std::fill_n(result, a.size(), 0.0);
  for (size_t i = 0; i < runs.size(); ++i) result[runs[i].tensor] += partial[i];
}

}  // namespace

void foreach_norm(const Context&, std::span<const View> self, const View& result) {
  auto* norms = result.ptr<double>();
  add_products(self, self, norms);
  for (size_t i = 0; i < self.size(); ++i) norms[i] = std::sqrt(norms[i]);
}

void foreach_dot(const Context&, std::span<const View> self, std::span<const View> other, const View& result) {
  for (size_t i = 0; i < self.size(); ++i) {
    const View &x = self[i], &y = other[i];
    check(x.ndim == y.ndim && std::equal(x.sizes, x.sizes + x.ndim, y.sizes) && x.dtype == y.dtype,
          "the tensors {} of the lists differ in shape or dtype (expected the same)", i);
  }
  add_products(self, other, result.ptr<double>());
}

}  // namespace deckle::kernels::cpu
