// sum, mean and prod over any dims.     Floating elements are added up in double, halves eight at a time in float; integers in
// int64
#include "deckle/kernels/cuda/reduce/kinds.cuh"

namespace deckle::kernels::cuda {

void sum(const Context& context, const View& self, std::optional<std::span<const int64_t>> dim, bool, const View& result) {
  reduce::run_exact([](auto zero) { return reduce::Sum<decltype(zero)>{}; }, context, self, reduce::dims_of(dim),
                    {reduce::output_of(result), {}});
}

void mean(const Context& context, const View& self, std::optional<std::span<const int64_t>> dim, bool, const View& result) {
  reduce::run<reduce::Sum<double>, double>({true}, context, self, reduce::dims_of(dim), {reduce::output_of(result), {}});
}

void prod(const Context& context, const View& self, std::optional<std::span<const int64_t>> dim, bool, const View& result) {
  reduce::run_exact([](auto zero) { return reduce::Product<decltype(zero)>{}; }, context, self, reduce::dims_of(dim),
                    {reduce::output_of(result), {}});
}

}  // namespace deckle::kernels::cuda
