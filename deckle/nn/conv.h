#pragma once

#include "deckle/nested/generated/conv.h"
#include "deckle/nn/init.h"
#include "deckle/nn/module.h"
#include "deckle/ops/generated/conv.h"

namespace deckle::nn {

/// Convolution of [..., L, in] along L, ragged or not, with a learned weight and bias: windows of `size` rows, of channels last.
class Conv1d final : public Module {
 public:
  Conv1d(IntArg in, IntArg out, IntArg size, const Conv1dOptions& options = {}, Generator* generator = nullptr);

  template <TensorLike X>
  X operator()(const X& x) const {
    return conv1d(x, weight, bias, options_);
  }

  DECKLE_MEMBERS(weight, bias, options_);

  Tensor weight;  // [out, in / groups, size]
  Tensor bias;    // [out]

 private:
  Conv1dOptions options_;
};

}  // namespace deckle::nn
