#pragma once

#include <initializer_list>

#include "deckle/core/tensor.h"

namespace deckle {

/// bool 0, integers 1, floating dtypes 2.
int category(DType dtype);

/// The dtype that two dtypes promote to: the wider one, floating over integral, float16 with bfloat16 to float32.
DType promote_types(DType a, DType b);

/// The result dtype of an op, by PyTorch's rules: among operands of the highest category (bool < integer < floating), those
/// with dims decide, then tensors without dims, then plain numbers (float32 for a floating, int64 for an integer number).
DType result_type(TensorList tensors, std::initializer_list<Scalar> numbers = {});

/// The number truncated towards zero as an element of the integer dtype; an error if that has no such value.
int64_t integer_of(const Scalar& number, DType dtype);

}  // namespace deckle
