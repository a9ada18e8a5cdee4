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
  SwiGLU(int64_t width, int64_t hidden, double out_scale, Generator& generator)
      : in({.in = width, .out = hidden}, generator),
        gate({.in = width, .out = hidden}, generator),
        out({.in = hidden, .out = width, .scale = out_scale}, generator) {}

  template <TensorLike X>
  X operator()(const X& x) const {
    return out(swiglu(in(x), gate(x)));
  }

  void visit(StateVisitor& visitor) override {
    visitor.child("in", in);
    visitor.child("gate", gate);
    visitor.child("out", out);
  }

  Linear in;
  Linear gate;
  Linear out;
};

/// out(gelu(in(x))), with biases.
class GeluFeedForward final : public Module {
 public:
  GeluFeedForward(int64_t width, int64_t hidden, double out_scale, Generator& generator)
      : in({.in = width, .out = hidden, .bias = true}, generator),
        out({.in = hidden, .out = width, .bias = true, .scale = out_scale}, generator) {}

  template <TensorLike X>
  X operator()(const X& x) const {
    return out(gelu(in(x)));
  }

  void visit(StateVisitor& visitor) override {
    visitor.child("in", in);
    visitor.child("out", out);
  }

  Linear in;
  Linear out;
};

}  // namespace deckle::nn
