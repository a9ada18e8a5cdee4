#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cpu/pointwise/driver.h"

namespace deckle::kernels::cpu::pointwise {

/// Without initial values: a walk has room for more operands than ops have, and clearing them all would take longer than many
/// ops.
struct Operand {
  char* data;
  DType dtype;
  int64_t item;
  int64_t strides[kMaxDims];  // by walk dim, innermost first
  const int64_t* table;       // if given, walk dim table_dim, not the innermost, goes through it (View::table)
  int table_dim;

  /// Whether steps along this dim are not all of one length.
  bool goes_through_table(int dim) const { return table != nullptr && dim == table_dim; }
  int64_t offset(int dim, int64_t index) const { return (goes_through_table(dim) ? table[index] : index) * strides[dim]; }
};

/// The common shape of all operands, innermost dim first, and the operands in it: inputs, then outputs.
struct Walk {
  int dims = 0;
  int64_t sizes[kMaxDims] = {};
  int inputs = 0;
  int count = 0;
  std::array<Operand, kMaxOperands> operands;  // the first `count` are set

  int64_t numel() const {
    int64_t n = 1;
    for (int d = 0; d < dims; ++d) n *= sizes[d];
    return n;
  }
  bool contiguous(int operand) const {
    if (operands[operand].table != nullptr) return false;
    int64_t expected = 1;
    for (int d = 0; d < dims; ++d) {
      if (operands[operand].strides[d] != expected) return false;
      expected *= sizes[d];
    }
    return true;
  }
  bool one_number(int operand) const {
    return std::all_of(operands[operand].strides, operands[operand].strides + dims, [](int64_t s) { return s == 0; });
  }
};

/// The position of an iteration: the coordinates of one element, and each operand's offset there.
class Position {
 public:
  /// The element `index` of the dims from `first_dim` on.
  Position(const Walk& walk, int64_t index, int first_dim) : walk_(walk), first_(first_dim) {
    for (int d = first_; d < walk.dims; ++d) {
      at_[d] = index % walk.sizes[d];
      index /= walk.sizes[d];
    }
  }
  int64_t operator[](int dim) const { return at_[dim]; }
  int64_t offset(int operand) const {
    int64_t elements = 0;
    for (int d = first_; d < walk_.dims; ++d) elements += walk_.operands[operand].offset(d, at_[d]);
    return elements;
  }
  /// Advances by `steps` elements along the first dim (at most to its end), carrying into the next.
  void advance(int64_t steps) {
    at_[first_] += steps;
    for (int d = first_; d + 1 < walk_.dims && at_[d] == walk_.sizes[d]; ++d) {
      at_[d] = 0;
      ++at_[d + 1];
    }
  }

 private:
  const Walk& walk_;
  int first_;
  int64_t at_[kMaxDims] = {};
};

/// Broadcasts the inputs to outputs[0], orders the dims by its strides, drops those of size 1 and merges adjacent ones that are
/// contiguous for every operand. At least one dim remains.
Walk make_walk(std::span<const View> inputs, std::span<const View> outputs);

}  // namespace deckle::kernels::cpu::pointwise
