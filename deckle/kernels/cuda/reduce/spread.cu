// Variance, standard deviation and Euclidean norm over any dims.                      One pass in double
#include "deckle/kernels/cuda/reduce/scaled_spread.cuh"

namespace deckle::kernels::cuda {
namespace {

void spread(const reduce::Spread& of, const Context& context, const View& self, std::optional<std::span<const int64_t>> dim,
            const View& result) {
  const reduce::Outputs outputs{reduce::output_of(result), {}};
  if (self.dtype == DType::float64)
    reduce::run<reduce::ScaledSpread, double>({of}, context, self, reduce::dims_of(dim), outputs);
  else
    reduce::run<reduce::Spread, double>(of, context, self, reduce::dims_of(dim), outputs);
}

}  // namespace

void variance(const Context& context, const View& self, std::optional<std::span<const int64_t>> dim, int64_t correction, bool,
              const View& result) {
  spread({correction, false}, context, self, dim, result);
}
void standard_deviation(const Context& context, const View& self, std::optional<std::span<const int64_t>> dim, int64_t correction,
                        bool, const View& result) {
  spread({correction, true}, context, self, dim, result);
}
void euclidean_norm(const Context& context, const View& self, std::optional<std::span<const int64_t>> dim, bool,
                    const View& result) {
  reduce::run<reduce::Length, double>({}, context, self, reduce::dims_of(dim), {reduce::output_of(result), {}});
}

}  // namespace deckle::kernels::cuda
