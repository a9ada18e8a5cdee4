// sum, mean and prod over any dims.     Floating elements are added up in double, halves eight at a time in float; integers in
// int64
#include "deckle/kernels/cuda/reduce/kinds.cuh"
#include "deckle/kernels/cuda/reduce/scaled_mean.cuh"

namespace deckle::kernels::cuda {

void sum(const Context& context, const View& self, std::optional<std::span<const int64_t>> dim, bool, const View& result) {
  reduce::run_exact([](auto zero) { return reduce::Sum<decltype(zero)>{}; }, context, self, reduce::dims_of(dim),
                    {reduce::output_of(result), {}});
}

void mean(const Context& context, const View& self, std::optional<std::span<const int64_t>> dim, bool, const View& result) {
  const reduce::Outputs outputs{reduce::output_of(result), {}};
  if (self.dtype == DType::float64)
    reduce::run<reduce::ScaledMean, double>({}, context, self, reduce::dims_of(dim), outputs);
  else
    reduce::run<reduce::Sum<double>, double>({true}, context, self, reduce::dims_of(dim), outputs);
}

void prod(const Context& context, const View& self, std::optional<std::span<const int64_t>> dim, bool, const View& result) {
  reduce::run_exact([](auto zero) { return reduce::Product<decltype(zero)>{}; }, context, self, reduce::dims_of(dim),
                    {reduce::output_of(result), {}});
}

}  // namespace deckle::kernels::cuda
