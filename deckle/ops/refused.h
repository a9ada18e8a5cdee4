#pragma once

#include <concepts>
#include <cstdint>
#include <optional>

#include "deckle/ops/generated/conv.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/random.h"

/// Calls that other libraries take and none of ours: deleted, so that a compiler shows what to write.
namespace deckle {

// Sizes are one list.
template <Integer First, Integer Second, Integer... More>
Tensor zeros(First, Second, More...) = delete;  // sizes are one list: zeros({2, 3})
template <Integer First, Integer Second, Integer... More>
Tensor ones(First, Second, More...) = delete;  // sizes are one list: ones({2, 3})
template <Integer First, Integer Second, Integer... More>
Tensor empty(First, Second, More...) = delete;  // sizes are one list: empty({2, 3})
template <Integer First, Integer Second, Integer... More>
Tensor rand(First, Second, More...) = delete;  // sizes are one list: rand({2, 3})
template <Integer First, Integer Second, Integer... More>
Tensor randn(First, Second, More...) = delete;  // sizes are one list: randn({2, 3})
Tensor randint(IntArg, Ints) = delete;          // both ends are given: randint(0, 10, {2, 3})

// Options have names.
Tensor rand(Ints, DType) = delete;         // options have names: rand({2, 3}, {.dtype = DType::float64})
Tensor randn(Ints, DType) = delete;        // options have names: randn({2, 3}, {.dtype = DType::float64})
Tensor rand(Ints, Generator*) = delete;    // options have names: rand({2, 3}, {.generator = &g})
Tensor randn(Ints, Generator*) = delete;   // options have names: randn({2, 3}, {.generator = &g})
Tensor zeros(Ints, const char*) = delete;  // a dtype is no text: zeros({2, 3}, DType::float64)
Tensor ones(Ints, const char*) = delete;   // a dtype is no text: ones({2, 3}, DType::float64)
template <std::same_as<bool> B>
Tensor dropout(const Tensor&, FloatArg, B) = delete;  // options have names: dropout(x, 0.5, {.train = false})

// Tensors are one list.
Tensor cat(const Tensor&, const Tensor&) = delete;    // tensors are one list: cat({x, y})
Tensor stack(const Tensor&, const Tensor&) = delete;  // tensors are one list: stack({x, y})

/// `{.padding = 1}`.
struct PaddingByNumber {
  std::optional<int64_t> stride = std::nullopt;
  IntArg padding;
  int64_t dilation = 1, groups = 1;
};
Tensor conv1d(const Tensor&, const Tensor&, PaddingByNumber) = delete;                 // Padding::same, or pad(x, {0, 0, 1, 1})
Tensor conv1d(const Tensor&, const Tensor&, const Tensor&, PaddingByNumber) = delete;  // Padding::same, or pad(x, {0, 0, 1, 1})
Tensor conv2d(const Tensor&, const Tensor&, PaddingByNumber) = delete;  // Padding::same, or pad(x, {0, 0, 1, 1, 1, 1})
Tensor conv2d(const Tensor&, const Tensor&, const Tensor&,
              PaddingByNumber) = delete;                             // Padding::same, or pad(x, {0, 0, 1, 1, 1, 1})
Tensor avg_pool1d(const Tensor&, IntArg, PaddingByNumber) = delete;  // Padding::same, or pad(x, {0, 0, 1, 1})
Tensor avg_pool2d(const Tensor&, IntArg, PaddingByNumber) = delete;  // Padding::same, or pad(x, {0, 0, 1, 1, 1, 1})
Tensor max_pool1d(const Tensor&, IntArg, PaddingByNumber) = delete;  // Padding::same, or pad(x, {0, 0, 1, 1}, -INFINITY)
Tensor max_pool2d(const Tensor&, IntArg, PaddingByNumber) = delete;  // Padding::same, or pad(x, {0, 0, 1, 1, 1, 1}, -INFINITY)

}  // namespace deckle
