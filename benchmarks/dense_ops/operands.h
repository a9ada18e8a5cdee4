#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "deckle/deckle.h"

namespace dense_ops {

/// What the cases compute with: [rows, columns] where nothing else is said, and in the layout that was asked for.
struct Operands {
  deckle::Tensor x, y;      // normal; integers: -50..50
  deckle::Tensor positive;  // 0.1..1.1; integers: 1..9
  deckle::Tensor mask;      // bool
  deckle::Tensor columns;   // int64, of 0..columns - 1, in every row
  deckle::Tensor rows;      // int64, of 0..rows - 1, in every column
  deckle::Tensor bias;      // [columns]
  deckle::Tensor square;    // [columns, columns]
  deckle::Tensor kernel;    // [16, columns, 3]
  deckle::Tensor signal;    // [4, rows / 4, columns]: x as a batch of signals, channels last
  deckle::Tensor few;       // [16, columns]
  deckle::Tensor narrow;    // [columns, 16]
  deckle::Tensor experts;   // [4, columns, columns], each for the rows of one component of `grouped`
  deckle::Ragged grouped;   // x as four components of 1, 3, 5 and 7 sixteenths of its rows
  deckle::Tensor ids;       // int64 [rows], of 0..rows - 1
  deckle::Tensor classes;   // int64 [rows], of 0..columns - 1
};

/// Drawn in float32 (integers: int64) and contiguous.
std::map<std::string, deckle::Tensor> draw(int64_t rows, int64_t columns, bool integers, uint64_t seed);

/// Those as leaves of a dtype; layout "transposed": what has rows and columns is the transpose of contiguous memory.
Operands make_operands(const std::map<std::string, deckle::Tensor>& drawn, deckle::DType dtype, const std::string& layout);

/// What gradients are asked for, by name.
std::map<std::string, deckle::Tensor> leaves(const Operands& operands);

}  // namespace dense_ops
