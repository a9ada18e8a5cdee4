#pragma once

#include <optional>
#include <vector>

#include "deckle/core/ragged_shape.h"
#include "deckle/core/row_map.h"
#include "tests/ops/nested_suite.h"

/// The ragged shapes that ops are tried on: operands packed to it out of samples, and the positions that its components share.
namespace deckle::suite {

struct Pattern {
  int ragged_dims;
  std::vector<int64_t> sizes;  // [components, ragged_dims]; none: three components of the sample's sizes
};

/// Zero-length components at the edges and inside, all empty, several lengths, long enough for any sample; the same with two
/// ragged dims. With DECKLE_TEST_FEW_PATTERNS one of each, for tools under which all of them would take hours.
const std::vector<Pattern>& patterns();

Ragged make_ragged(std::vector<int64_t> sizes, int ragged_dims);

/// `rows` rows of as many samples as that takes; nothing if samples have none.
std::optional<Tensor> packed_rows(const Operand& operand, Random& random, int ragged_dims, int64_t rows);

/// [B, 1 for each ragged dim, the sample's last dims]: what broadcasts along the rows of a component.
std::optional<Tensor> per_component(const Operand& operand, Random& random, int ragged_dims, int64_t regular_dims,
                                    int64_t components);

/// Element `place` of the first dims of a tensor.
Tensor at_place(Tensor tensor, Ints place);

/// Each part in one piece.
Tensors joined(const std::vector<Tensors>& parts);

/// body(place, components that reach it) for every place of the longest sizes that some component reaches.
template <typename Body>
void for_positions(const RaggedShape& shape, Body body) {
  std::vector<int64_t> longest;
  for (int dim = 0; dim < shape.ragged_dims(); ++dim) longest.push_back(shape.max_size(dim));
  const RaggedShape padded(longest, shape.ragged_dims());
  std::vector<int64_t> place(longest.size());
  for (int64_t position = 0; position < padded.rows(); ++position) {
    for (int dim = 0; dim < shape.ragged_dims(); ++dim)
      place[static_cast<size_t>(dim)] = padded.row_map().position(position, dim);
    std::vector<int64_t> reaching;
    for (int64_t b = 0; b < shape.components(); ++b) {
      bool reaches = true;
      for (int dim = 0; dim < shape.ragged_dims(); ++dim)
        reaches = reaches && place[static_cast<size_t>(dim)] < shape.size(b, dim);
      if (reaches) reaching.push_back(b);
    }
    if (!reaching.empty()) body(position, place, reaching);
  }
}

}  // namespace deckle::suite
