#include "deckle/kernels/cuda/attention/backward_instances.cuh"

namespace deckle::kernels::cuda::attention {
namespace {

template <Element element>
BackwardKernels instance() {
  return {keys_split<KeyGradientsSplit<element, 192, 192, 3, 1>>(),
          queries<QueryGradients<element, 192, 192, 80, 2, 1, 2, 2, Ahead::gradient_first>>()};
}

}  // namespace

template <>
BackwardKernels backward_kernels<192, 192>(AttentionElement element) {
  return element == AttentionElement::bf16 ? instance<Element::bf16>() : instance<Element::f16>();
}

}  // namespace deckle::kernels::cuda::attention
