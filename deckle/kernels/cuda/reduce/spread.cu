// Variance, standard deviation and Euclidean norm over any dims.                      One pass in double
#include "deckle/kernels/cuda/reduce/kinds.cuh"

namespace deckle::kernels::cuda {

void variance(const Context& context, const View& self, std::optional<std::span<const int64_t>> dim, int64_t correction, bool,
              const View& result) {
  reduce::run<reduce::Spread, double>({correction, false}, context, self, reduce::dims_of(dim), {reduce::output_of(result), {}});
}
void standard_deviation(const Context& context, const View& self, std::optional<std::span<const int64_t>> dim, int64_t correction,
                        bool, const View& result) {
  reduce::run<reduce::Spread, double>({correction, true}, context, self, reduce::dims_of(dim), {reduce::output_of(result), {}});
}
void euclidean_norm(const Context& context, const View& self, std::optional<std::span<const int64_t>> dim, bool,
                    const View& result) {
  reduce::run<reduce::Length, double>({}, context, self, reduce::dims_of(dim), {reduce::output_of(result), {}});
}

}  // namespace deckle::kernels::cuda
