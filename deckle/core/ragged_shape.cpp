#include "deckle/core/ragged_shape.h"

#include <fmt/format.h>

#include <algorithm>

#include "deckle/base/check.h"
#include "deckle/base/numbers.h"
#include "deckle/core/ragged_room.h"

namespace deckle {

RaggedShape::RaggedShape(std::vector<int64_t> sizes, int ragged_dims, std::vector<int64_t> order)
    : ragged_dims_(ragged_dims), sizes_(std::move(sizes)), order_(std::move(order)) {
  check(ragged_dims >= 1, "{} ragged dims (expected one or more)", ragged_dims);
  check(sizes_.size() % static_cast<size_t>(ragged_dims) == 0,
        "{} sizes are no whole number of components with {} ragged dims (expected a multiple)", sizes_.size(), ragged_dims);
  components_ = static_cast<int64_t>(sizes_.size()) / ragged_dims;
  offsets_.resize(static_cast<size_t>(components_) + 1, 0);
  for (int64_t b = 0; b < components_; ++b) {
    int64_t rows = 1;
    bool overflow = false;
    for (int dim = 0; dim < ragged_dims; ++dim) {
      check(size(b, dim) >= 0, "component {} has the negative length {} (expected 0 or more)", b, size(b, dim));
      overflow |= __builtin_mul_overflow(rows, size(b, dim), &rows);
    }
    overflow |= __builtin_add_overflow(offsets_[static_cast<size_t>(b)], rows, &offsets_[static_cast<size_t>(b) + 1]);
    check(!overflow, "the components have more than 2^63 rows in all (expected fewer)");
  }
  check(order_.empty() || static_cast<int64_t>(order_.size()) == rows(),
        "an order of {} rows for the {} of the components (expected as many)", order_.size(), rows());
}

RaggedShape::RaggedShape(std::shared_ptr<const RaggedRoom> room)
    : components_(room->components), ragged_dims_(1), offsets_{room->rows}, room_(std::move(room)) {}

void RaggedShape::refuse() const {
  fail(ErrorKind::not_implemented,
       "the lengths of the components lie on {} alone (expected a batch whose lengths the host knows)",
       to_string(room_->offsets.device()));
}

int64_t RaggedShape::max_size(int ragged_dim) const {
  int64_t largest = 0;
  for (int64_t b = 0; b < components_; ++b) largest = std::max(largest, size(b, ragged_dim));
  return largest;
}

int64_t RaggedShape::min_size(int ragged_dim) const {
  int64_t smallest = components_ == 0 ? 0 : size(0, ragged_dim);
  for (int64_t b = 1; b < components_; ++b) smallest = std::min(smallest, size(b, ragged_dim));
  return smallest;
}

Ragged Ragged::from_lengths(std::span<const int64_t> lengths) try {
  return Ragged(std::make_shared<const RaggedShape>(std::vector<int64_t>(lengths.begin(), lengths.end())));
} catch (...) {
  rethrow_from("from_lengths");
}

Ragged Ragged::from_offsets(std::span<const int64_t> offsets) try {
  check(!offsets.empty(), "offsets are empty (expected one more than the components, from 0 on)");
  check(offsets[0] == 0, "offsets must start with 0, not {} (expected 0)", offsets[0]);
  std::vector<int64_t> lengths(offsets.size() - 1);
  for (size_t b = 0; b < lengths.size(); ++b) {
    check(offsets[b + 1] >= offsets[b], "offsets must not fall: offsets[{}] is {}, offsets[{}] is {} (expected as much or more)",
          b, offsets[b], b + 1, offsets[b + 1]);
    lengths[b] = offsets[b + 1] - offsets[b];
  }
  return Ragged(std::make_shared<const RaggedShape>(std::move(lengths)));
} catch (...) {
  rethrow_from("from_offsets");
}

std::string to_string(const Ragged& ragged) {
  if (!ragged.defined()) return "no ragged dims";
  const RaggedShape& shape = *ragged;
  if (const RaggedRoom* const room = shape.room(); room != nullptr)
    return fmt::format("room for {} components of {} rows in all", with_commas(room->components), with_commas(room->rows));
  constexpr int64_t kShown = 8;
  std::vector<std::string> shown;
  for (int64_t b = 0; b < std::min(shape.components(), kShown); ++b) {
    std::vector<int64_t> sizes;
    for (int dim = 0; dim < shape.ragged_dims(); ++dim) sizes.push_back(shape.size(b, dim));
    shown.push_back(fmt::format("{}", fmt::join(sizes, "x")));
  }
  return fmt::format("{} component{} of lengths [{}{}]", shape.components(), shape.components() == 1 ? "" : "s",
                     fmt::join(shown, ", "), shape.components() > kShown ? ", ..." : "");
}

}  // namespace deckle
