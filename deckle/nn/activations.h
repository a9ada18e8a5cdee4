#pragma once

#include "deckle/nested/generated/pointwise.h"
#include "deckle/nested/generated/random.h"
#include "deckle/nested/generated/reduce.h"
#include "deckle/nn/module.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/random.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"

/// Functions without parameters as modules, for Sequential.
namespace deckle::nn {

class Identity final : public Module {
 public:
  template <TensorLike X>
  X operator()(const X& x) const {
    return x;
  }
  DECKLE_MEMBERS();
};

// clang-format off
#define DECKLE_ACTIVATION(Name, function)                 \
  class Name final : public Module {                      \
   public:                                                \
    template <TensorLike X>                               \
    X operator()(const X& x) const { return function(x); } \
    DECKLE_MEMBERS();                                     \
  }
// clang-format on
DECKLE_ACTIVATION(ReLU, relu);
DECKLE_ACTIVATION(GELU, gelu);
DECKLE_ACTIVATION(SiLU, silu);
DECKLE_ACTIVATION(Tanh, tanh);
DECKLE_ACTIVATION(Sigmoid, sigmoid);
DECKLE_ACTIVATION(LogSigmoid, log_sigmoid);
DECKLE_ACTIVATION(Softplus, softplus);
#undef DECKLE_ACTIVATION

class LeakyReLU final : public Module {
 public:
  explicit LeakyReLU(FloatArg slope = 0.01) : slope_(slope) {}
  template <TensorLike X>
  X operator()(const X& x) const {
    return leaky_relu(x, slope_);
  }
  DECKLE_MEMBERS(slope_);

 private:
  double slope_;
};

class ELU final : public Module {
 public:
  explicit ELU(FloatArg alpha = 1) : alpha_(alpha) {}
  template <TensorLike X>
  X operator()(const X& x) const {
    return elu(x, alpha_);
  }
  DECKLE_MEMBERS(alpha_);

 private:
  double alpha_;
};

class Softmax final : public Module {
 public:
  explicit Softmax(IntArg dim) : dim_(dim) {}
  template <TensorLike X>
  X operator()(const X& x) const {
    return softmax(x, dim_);
  }
  DECKLE_MEMBERS(dim_);

 private:
  int64_t dim_;
};

/// Dims from `start` on as one: [B, ...] -> [B, n].
class Flatten final : public Module {
 public:
  explicit Flatten(IntArg start = 1) : start_(start) {}
  Tensor operator()(const Tensor& x) const { return flatten(x, start_); }
  DECKLE_MEMBERS(start_);

 private:
  int64_t start_;
};

/// In training each element zero with probability p, the others divided by 1 - p; else nothing happens.
class Dropout final : public Module {
 public:
  /// The generator must outlive the module; without one, the thread's is taken.
  /// An Error unless p is in [0, 1].
  explicit Dropout(FloatArg p = 0.5, Generator* generator = nullptr);
  template <TensorLike X>
  X operator()(const X& x) const {
    return training() ? dropout(x, p_, {.generator = generator_.from}) : x;
  }
  DECKLE_MEMBERS(p_, generator_);

 private:
  struct Source {
    Generator* from;
  };
  double p_;
  Source generator_;
};

}  // namespace deckle::nn
