#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "deckle/deckle.h"

namespace nested_ops {

/// A batch to measure on. The dense counterpart has the same components, each of `mean` rows.
struct Batch {
  std::vector<int64_t> lengths;  // components * mean rows in all
  int64_t mean = 0;
  int64_t features = 0;
};

/// log_normal: 256 of mean 120, sigma 0.8, within 4..1024; few: 64 of them. tiny: 100,000 of 1 to 5. huge: 4 of about 200,000.
Batch draw(const std::string& shape, uint64_t seed);

/// The operands of all cases, X being NestedTensor or Tensor. Both kinds share their values.
template <typename X>
struct Operands {
  X x, y;                        // [B, L, D]
  X narrow;                      // [B, L, 64]
  X mask;                        // x > 0
  X keep;                        // [B, L], half of the rows
  X ids;                         // [B, L], rows of the table
  X places;                      // [B, L, D], positions in each component
  deckle::Tensor weight, bias;   // [D, D], [D]
  deckle::Tensor down;           // [64, D]
  deckle::Tensor own;            // [B, 64, D]; undefined if components are many
  deckle::Tensor per_component;  // [B, 1, D]
  deckle::Tensor kernel;         // [64, D, 3]
  deckle::Tensor table;          // [1000, D]
};

/// Their values, which ops are differentiated in; not those that are undefined or no numbers.
template <typename X>
std::vector<deckle::Tensor> leaves(const Operands<X>& d) {
  const auto values = [](const auto& operand) -> const deckle::Tensor& {
    if constexpr (requires { operand.values(); })
      return operand.values();
    else
      return operand;
  };
  std::vector<deckle::Tensor> result = {values(d.x), values(d.y),     values(d.narrow), d.weight, d.bias,
                                        d.down,      d.per_component, d.kernel,         d.table};
  if (d.own.defined()) result.push_back(d.own);
  return result;
}

struct Data {
  Batch batch;
  Operands<deckle::NestedTensor> nested;
  Operands<deckle::Tensor> dense;
};

Data make_data(Batch batch, uint64_t seed);

}  // namespace nested_ops
