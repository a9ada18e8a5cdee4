#pragma once

#include <span>

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/number.h"
#include "deckle/kernels/args/view.h"

namespace deckle::kernels::cuda::pointwise {

/// The kernels of an expression for one type and any operands, as the runtime launches them; null: none for this type.
struct Pair {
  const void* vectors = nullptr;
  const void* single = nullptr;
  int together = 1;  // vectors that a thread takes
};

/// A kernel of operands that are contiguous and of one dtype; null: none for this dtype.
struct Flat {
  const void* kernel = nullptr;
  int together = 1;  // vectors of 16 bytes that a thread takes
  int threads = 0;   // of a block
};
struct Flats {
  Flat float32, bfloat16;
};

struct Kernels {
  Pair f32, f64, i64;
  Flats flat;
};

/// Runs a pointwise expression over operands of any strides and dtypes. `compute` is float32, float64 or int64, the type in
/// which it computes; operands are converted to it and the result from it (to bool: "is not zero"). The result may lie in the
/// place of an input, not shifted against it.
void run(const Kernels& kernels, const Context& context, DType compute, std::span<const View> inputs,
         std::span<const Number> numbers, const View& result);

}  // namespace deckle::kernels::cuda::pointwise
