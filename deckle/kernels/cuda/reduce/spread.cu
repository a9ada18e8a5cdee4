// Variance and standard deviation over any dims.                      One pass in double: means and squares of parts merge
#include <cmath>

#include "deckle/kernels/cuda/reduce/reduce.cuh"

namespace deckle::kernels::cuda {
namespace {

struct Moments {
  double count, mean, squares;  // squares of distances from the mean
};

struct Spread {
  using Acc = Moments;
  int64_t correction = 1;
  bool root = false;

  __device__ Acc start() const { return {0, 0, 0}; }
  __device__ void add(Acc& acc, double x, int64_t) const {
    acc.count += 1;
    const double distance = x - acc.mean;
    acc.mean += distance / acc.count;
    acc.squares += distance * (x - acc.mean);
  }
  __device__ Acc merge(Acc a, Acc b) const {
    if (a.count == 0) return b;
    if (b.count == 0) return a;
    const double count = a.count + b.count, distance = b.mean - a.mean;
    return {count, a.mean + distance * (b.count / count),
            a.squares + b.squares + distance * distance * (a.count * b.count / count)};
  }
  __device__ void finish(Acc acc, int64_t length, const reduce::Outputs& outputs, int64_t row) const {
    const double variance = acc.squares / static_cast<double>(length > correction ? length - correction : 0);
    outputs.first.put(row, root ? ::sqrt(variance) : variance);
  }
};

}  // namespace

void variance(const Context& context, const View& self, std::optional<std::span<const int64_t>> dim, int64_t correction, bool,
              const View& result) {
  reduce::run<Spread, double>({correction, false}, context, self, reduce::dims_of(dim), {reduce::output_of(result), {}});
}
void standard_deviation(const Context& context, const View& self, std::optional<std::span<const int64_t>> dim, int64_t correction,
                        bool, const View& result) {
  reduce::run<Spread, double>({correction, true}, context, self, reduce::dims_of(dim), {reduce::output_of(result), {}});
}

}  // namespace deckle::kernels::cuda
