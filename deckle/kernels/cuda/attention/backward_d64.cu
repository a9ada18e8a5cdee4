#include "deckle/kernels/cuda/attention/backward_instances.cuh"

namespace deckle::kernels::cuda::attention {
namespace {

template <Element element>
BackwardKernels instance() {
  return {keys<KeyGradients<element, 64, 128, 2, 3, 2, Overlap::others>>(),
          queries<QueryGradients<element, 64, 64, 128, 2, 2, 3, 3, Ahead::gradient_first>>(),
          short_sequences<ShortGradients<element, 64, 3>>()};
}

}  // namespace

template <>
BackwardKernels backward_kernels<64, 64>(AttentionElement element) {
  return element == AttentionElement::bf16 ? instance<Element::bf16>() : instance<Element::f16>();
}

}  // namespace deckle::kernels::cuda::attention
