#pragma once

#include "deckle/nested/generated/pointwise.h"
#include "deckle/nn/linear.h"
#include "deckle/nn/module.h"
#include "deckle/ops/generated/pointwise.h"

namespace deckle::nn {

/// out(in(x) * silu(gate(x))). Shazeer, "GLU variants improve transformer", 2020.
class SwiGLU final : public Module {
 public:
  /// `out_scale` scales the starting values of the last product.
  SwiGLU(IntArg d_model, IntArg hidden, FloatArg out_scale, Generator& generator)
      : in(d_model, hidden, {.bias = false, .generator = &generator}),
        gate(d_model, hidden, {.bias = false, .generator = &generator}),
        out(hidden, d_model, {.bias = false, .scale = out_scale, .generator = &generator}) {}

  template <TensorLike X>
  X operator()(const X& x) const {
    return out(swiglu(in(x), gate(x)));
  }

  DECKLE_MEMBERS(in, gate, out);

  Linear in;
  Linear gate;
  Linear out;
};

/// out(gelu(in(x))), with biases.
class GeluFeedForward final : public Module {
 public:
  GeluFeedForward(IntArg d_model, IntArg hidden, FloatArg out_scale, Generator& generator)
      : in(d_model, hidden, {.generator = &generator}), out(hidden, d_model, {.scale = out_scale, .generator = &generator}) {}

  template <TensorLike X>
  X operator()(const X& x) const {
    return out(gelu(in(x)));
  }

  DECKLE_MEMBERS(in, out);

  Linear in;
  Linear out;
};

}  // namespace deckle::nn
