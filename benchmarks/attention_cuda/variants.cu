// Forward kernels that are not (or not yet) the choice for their head dim, timed beside it. The list is the record of what was
// tried.
#include <exception>
#include <string>

#include "deckle/kernels/cuda/attention/forward_launch.cuh"

namespace deckle::kernels::cuda::attention {
namespace {

struct Variant {
  const char* name;
  ForwardInstance instance;
};

template <class Config>
Variant variant(const char* name) {
  return {name, forward_instance<Config>(AttentionElement::bf16, ForwardUse::long_keys)};
}

constexpr Element kBf16 = Element::bf16;

//                         D    Dv  warpgroups keys stages q buffers together
const Variant kVariants[] = {
    variant<ForwardConfig<kBf16, 128, 128, 3, 128, 2, 2, false>>("D128 3x64 rows, 128 keys"),
    variant<ForwardConfig<kBf16, 128, 128, 3, 80, 2, 2, true>>("D128 3x64 rows, 80 keys, together"),
    variant<ForwardConfig<kBf16, 128, 128, 3, 80, 3, 2, true>>("D128 3x64 rows, 80 keys, 3 stages, together"),
    variant<ForwardConfig<kBf16, 128, 128, 2, 128, 2, 2, true, 1, true>>("D128 2x64 rows, 128 keys, together, q regs"),
    variant<ForwardConfig<kBf16, 64, 64, 3, 128, 3, 2, false, 1, true>>("D64 3x64 rows, 128 keys, q in registers"),
    variant<ForwardConfig<kBf16, 64, 64, 3, 96, 3, 2, true, 1, true>>("D64 3x64 rows, 96 keys, together, q regs"),
};

}  // namespace
}  // namespace deckle::kernels::cuda::attention

using deckle::kernels::cuda::attention::kVariants;

extern "C" {

int deckle_variant_count() { return static_cast<int>(std::size(kVariants)); }
const char* deckle_variant_name(int i) { return kVariants[i].name; }
int deckle_variant_head_dim(int i) { return kVariants[i].instance.head_dim; }
int deckle_variant_value_dim(int i) { return kVariants[i].instance.value_dim; }

const char* deckle_variant_forward(int i, const deckle::kernels::CudaAttentionProblem* problem, void* stream) {
  static thread_local std::string message;
  try {
    kVariants[i].instance.launch(*problem, static_cast<cudaStream_t>(stream));
    return nullptr;
  } catch (const std::exception& error) {
    message = error.what();
    return message.c_str();
  }
}
}
