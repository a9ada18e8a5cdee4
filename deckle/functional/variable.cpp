#include "deckle/functional/variable.h"

#include "deckle/autograd/variable.h"

namespace deckle::functional {

std::vector<Tensor> variables(TensorList tensors) {
  std::vector<Tensor> result;
  for (const Tensor& tensor : tensors) {
    const Tensor fresh = autograd::fresh_variable(tensor);
    if (is_floating(fresh.dtype()) && !fresh.requires_grad()) fresh.requires_grad_();
    result.push_back(fresh);
  }
  return result;
}

}  // namespace deckle::functional
