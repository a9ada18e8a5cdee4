// Running sums along one dim, from the front or from the back.                  Reads and writes every element once
//
// Partial sums are kept in double (int64_t for integers), so a float result is rounded once. Instances: float, double, int64_t.
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/reduce/by_rows.h"

namespace deckle::kernels::cpu {
namespace {

template <typename T>
void cumsum_row(int64_t n, bool reverse, const T* x, T* y) {
  using Sum = std::conditional_t<std::is_same_v<T, int64_t>, int64_t, double>;
  Sum sum = 0;
  if (reverse) {
    for (int64_t i = n - 1; i >= 0; --i) y[i] = static_cast<T>(sum += static_cast<Sum>(x[i]));
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(sum += static_cast<Sum>(x[i]));
  }
}

}  // namespace

void cumsum(const CpuContext&, const View& self, int64_t dim, bool reverse, const View& result) {
  simd::visit_compute(self.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    reduce::by_rows<T>(std::array{&self}, std::array{&result}, dim, [&](int64_t, int64_t rows, int64_t n, const auto& x, const auto& y) {
      for (int64_t r = 0; r < rows; ++r) cumsum_row(n, reverse, x[0] + r * n, y[0] + r * n);
    });
  });
}

}  // namespace deckle::kernels::cpu
