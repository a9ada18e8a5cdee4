#include "deckle/kernels/cuda/attention/backward_instances.cuh"

namespace deckle::kernels::cuda::attention {
namespace {

template <Element element>
BackwardKernels instance() {
  return {keys_split<KeyGradientsSplit<element, 256, 256, 2, 1>>(),
          queries<QueryGradients<element, 256, 256, 64, 2, 1, 2, 1, Ahead::gradient_first>>()};
}

}  // namespace

template <>
BackwardKernels backward_kernels<256, 256>(AttentionElement element) {
  return element == AttentionElement::bf16 ? instance<Element::bf16>() : instance<Element::f16>();
}

}  // namespace deckle::kernels::cuda::attention
