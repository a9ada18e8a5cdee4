// What the entries of kinds.yaml leave to be written by hand.
#include "acme/inner/ops/kernels/kinds.h"
#include "acme/inner/ops/kinds.h"
#include "acme/inner/ops/nested/kinds.h"
#include "deckle/deckle.h"
#include "deckle/nested/support.h"

namespace acme::inner {

using namespace deckle;

Tensor composite::firsts(const Tensor& self, int64_t dim) { return select(self, dim, 0); }

namespace nested {

NestedTensor firsts(const NestedTensor& self, int64_t dim) {
  return NestedTensor(select(self.values(), deckle::nested::values_dim(dim, self), 0), self.ragged());
}

}  // namespace nested

void native::doubled_(const Tensor& self) { raw::twice_out(self, self); }

namespace kernels::cpu {
namespace {

/// Calls `f` with the type of the elements and the type in which they are computed.
template <typename F>
void for_floating(DType dtype, const F& f) {
  visit(dtype, [&]<typename T>(TypeTag<T>) {
    if constexpr (std::is_same_v<T, double>)
      f(T{}, double{});
    else if constexpr (is_floating(dtype_of<T>))
      f(T{}, float{});
  });
}

}  // namespace

void joined_kernel(const Context&, const PairView& x, const View& other, double factor, Side, const View& result) {
  for_floating(result.dtype, [&]<typename T, typename Wide>(T, Wide) {
    const auto at = [](const View& view, int64_t i) { return static_cast<Wide>(view.ptr<T>()[i]); };
    for (int64_t i = 0; i < result.numel(); ++i)
      result.ptr<T>()[i] = static_cast<T>(at(x.first, i) * static_cast<Wide>(factor * x.scale) + at(x.second, i) * at(other, i));
  });
}

void kept(const Context&, const View& self, double p, PhiloxStream generator, const View& result) {
  for_floating(result.dtype, [&]<typename T, typename Wide>(T, Wide) {
    for (int64_t i = 0; i < result.numel(); ++i) {
      const uint32_t word = generator.block(static_cast<uint64_t>(i / 4))[static_cast<size_t>(i % 4)];
      result.ptr<T>()[i] = word < p * 0x1p32 ? self.ptr<T>()[i] : static_cast<T>(Wide{0});
    }
  });
}

}  // namespace kernels::cpu
}  // namespace acme::inner
