#include "deckle/kernels/cuda/attention/backward_instances.cuh"

namespace deckle::kernels::cuda::attention {
namespace {

template <Element element>
BackwardKernels instance() {
  return {keys<KeyGradients<element, 128, 64, 2, 3, 2, Overlap::own>>(),
          queries<QueryGradients<element, 128, 128, 96, 2, 1, 3, 2, Ahead::scores_first>>(),
          {},
          all<AllGradients<element>>(),
          reinterpret_cast<const void*>(&convert_query_gradients<element>)};
}

}  // namespace

template <>
BackwardKernels backward_kernels<128, 128>(AttentionElement element) {
  return element == AttentionElement::bf16 ? instance<Element::bf16>() : instance<Element::f16>();
}

}  // namespace deckle::kernels::cuda::attention
