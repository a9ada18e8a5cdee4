#pragma once

#include <span>

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/number.h"
#include "deckle/kernels/args/view.h"

namespace deckle::kernels::cuda::pointwise {

/// The two kernels of an expression for one type, as the runtime launches them; null: none for this type.
struct Pair {
  const void* vectors = nullptr;
  const void* single = nullptr;
  int together = 1;  // vectors that a thread takes
};

struct Kernels {
  Pair f32, f64, i64;
};

/// Runs a pointwise expression over operands of any strides and dtypes. `compute` is float32, float64 or int64, the type in
/// which it computes; operands are converted to it and the result from it (to bool: "is not zero"). The result may lie in the
/// place of an input, not shifted against it.
void run(const Kernels& kernels, const Context& context, DType compute, std::span<const View> inputs,
         std::span<const Number> numbers, const View& result);

}  // namespace deckle::kernels::cuda::pointwise
