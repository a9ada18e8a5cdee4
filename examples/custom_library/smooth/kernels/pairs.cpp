// Sums of neighbours, and back.       pair_sums: [..., 2 n] -> [..., n]; spread_pairs: [..., n] -> [..., 2 n]; all contiguous
#include "smooth/ops/kernels/smooth.h"

namespace smooth::kernels::cpu {
namespace {

/// Calls `f` with the type of the elements and the type in which they are added.
template <typename F>
void for_floating(deckle::DType dtype, const F& f) {
  deckle::visit(dtype, [&]<typename T>(deckle::TypeTag<T>) {
    if constexpr (std::is_same_v<T, double>)
      f(T{}, double{});
    else if constexpr (deckle::is_floating(deckle::dtype_of<T>))
      f(T{}, float{});
  });
}

}  // namespace

void pair_sums(const deckle::Context&, const deckle::View& self, const deckle::View& result) {
  for_floating(self.dtype, [&]<typename T, typename Sum>(T, Sum) {
    const T* const from = self.ptr<T>();
    for (int64_t i = 0; i < result.numel(); ++i)
      result.ptr<T>()[i] = static_cast<T>(static_cast<Sum>(from[2 * i]) + static_cast<Sum>(from[2 * i + 1]));
  });
}

void spread_pairs(const deckle::Context&, const deckle::View& self, const deckle::View& result) {
  for_floating(self.dtype, [&]<typename T, typename Sum>(T, Sum) {
    for (int64_t i = 0; i < result.numel(); ++i) result.ptr<T>()[i] = self.ptr<T>()[i / 2];
  });
}

}  // namespace smooth::kernels::cpu
