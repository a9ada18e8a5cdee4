#include "tests/ops/nested_patterns.h"

#include <cstdlib>
#include <numeric>

#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/shape.h"

namespace deckle::suite {
namespace {

const std::vector<Pattern> kPatterns = {
    {1, {3, 0, 5, 1}}, {1, {0, 0}},       {1, {0, 2, 4, 3}},       {1, {6, 4, 5}},          {1, {}}, {2, {2, 3, 0, 2, 1, 4}},
    {2, {0, 3, 2, 0}}, {2, {2, 2, 3, 1}}, {2, {0, 4, 3, 5, 2, 6}}, {2, {4, 0, 6, 2, 5, 3}}, {2, {}}};

int64_t product(Ints sizes) { return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>()); }

}  // namespace

const std::vector<Pattern>& patterns() {
  static const std::vector<Pattern> few = {kPatterns[0], kPatterns[5]};
  return std::getenv("DECKLE_TEST_FEW_PATTERNS") == nullptr ? kPatterns : few;
}

Ragged make_ragged(std::vector<int64_t> sizes, int ragged_dims) {
  return Ragged(std::make_shared<const RaggedShape>(std::move(sizes), ragged_dims));
}

std::optional<Tensor> packed_rows(const Operand& operand, Random& random, int ragged_dims, int64_t rows) {
  Tensors samples;
  for (int64_t got = 0; got < rows || samples.empty();) {
    const Tensor sample = operand.make(random);
    const int64_t more = product(sample.sizes().subspan(0, static_cast<size_t>(ragged_dims)));
    if (more == 0 && rows > 0) return std::nullopt;
    Dims sizes = {more};
    for (int64_t dim = ragged_dims; dim < sample.dim(); ++dim) sizes.push_back(sample.size(dim));
    samples.push_back(reshape(sample, sizes));
    got += more;
  }
  return contiguous(narrow(cat(samples, 0), 0, 0, rows));
}

std::optional<Tensor> per_component(const Operand& operand, Random& random, int ragged_dims, int64_t regular_dims,
                                    int64_t components) {
  Tensors rows;
  for (int64_t b = 0; b < components; ++b) {
    Tensor row = operand.make(random);
    while (row.dim() > regular_dims) {
      if (row.size(0) == 0) return std::nullopt;
      row = select(row, 0, 0);
    }
    for (int dim = 0; dim < ragged_dims; ++dim) row = unsqueeze(row, 0);
    rows.push_back(row);
  }
  return stack(rows, 0);
}

Tensor at_place(Tensor tensor, Ints place) {
  for (const int64_t at : place) tensor = select(tensor, 0, at);
  return tensor;
}

Tensors joined(const std::vector<Tensors>& parts) {
  Tensors result;
  for (const Tensors& part : parts) result.push_back(cat(part, 0));
  return result;
}

}  // namespace deckle::suite
