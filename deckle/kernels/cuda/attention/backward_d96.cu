#include "deckle/kernels/cuda/attention/backward_instances.cuh"

namespace deckle::kernels::cuda::attention {
namespace {

template <Element element>
BackwardKernels instance() {
  return {keys<KeyGradients<element, 96, 64, 2, 3, 2, Overlap::own>>(),
          queries<QueryGradients<element, 96, 96, 96, 2, 1, 3, 2, Ahead::scores_first>>()};
}

}  // namespace

template <>
BackwardKernels backward_kernels<96, 96>(AttentionElement element) {
  return element == AttentionElement::bf16 ? instance<Element::bf16>() : instance<Element::f16>();
}

}  // namespace deckle::kernels::cuda::attention
