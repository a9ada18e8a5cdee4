#pragma once

#include <utility>

#include "deckle/base/dtype.h"

namespace deckle::suite {

/// How far results in narrow dtypes may lie from others, of the largest: of float64 on the same operands, or rounded in between.
inline constexpr std::pair<DType, double> kNarrow[] = {{DType::float32, 2e-5}, {DType::bfloat16, 6e-2}, {DType::float16, 8e-3}};

}  // namespace deckle::suite
