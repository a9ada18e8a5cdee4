#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

#include "deckle/attention/compile_mask.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/nested/nested_tensor.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/targets.h"

namespace deckle::fuzz {
namespace {

struct Batch {
  std::vector<int64_t> rows, keys;
};

/// A mask, and what it says about (sequence, head, row, key) by the words of its documentation.
struct Said {
  AttentionMask mask;
  std::function<bool(int64_t, int64_t, int64_t, int64_t)> sees;
};

int64_t any_number(Bytes& bytes) {
  static const int64_t kLargest = std::numeric_limits<int64_t>::max();
  static const int64_t kEdges[] = {
      -1, std::numeric_limits<int64_t>::min(), kLargest, kLargest - 1, int64_t{1} << 32, int64_t{1} << 62, 1 << 20};
  const uint8_t kind = bytes.byte();
  if (kind < 200) return kind % 9;
  if (kind < 240) return kEdges[kind % 7];
  return bytes.word();
}

Said leaf(Bytes& bytes, const Batch& batch) {
  const bool top_left = bytes.below(2) == 1;
  const auto position = [top_left, batch](int64_t b, int64_t i) {
    const auto at = static_cast<size_t>(b);
    return top_left ? i : i + batch.keys[at] - batch.rows[at];
  };
  const auto ids = [&](const std::vector<int64_t>& lengths) {
    const Ragged shape = Ragged::from_lengths(lengths);
    const Tensor values = empty({shape->rows()}, DType::int64);
    for (int64_t i = 0; i < values.numel(); ++i) values.data<int64_t>()[i] = bytes.below(3);
    return NestedTensor(values, shape);
  };
  switch (bytes.below(5)) {
    case 0:
      return {masks::full(), [](auto...) { return true; }};
    case 1:
      return {top_left ? AttentionMask(masks::causal<Alignment::top_left>()) : AttentionMask(masks::causal()),
              [=](int64_t b, int64_t, int64_t i, int64_t j) { return j <= position(b, i); }};
    case 2: {
      const int64_t left = any_number(bytes), right = any_number(bytes);
      return {
          top_left ? AttentionMask(masks::window<Alignment::top_left>(left, right)) : AttentionMask(masks::window(left, right)),
          [=](int64_t b, int64_t, int64_t i, int64_t j) {
            const int64_t distance = j - position(b, i);
            return (left < 0 || -distance <= left) && (right < 0 || distance <= right);
          }};
    }
    case 3: {
      std::vector<int64_t> keys(batch.rows.size());
      for (int64_t& each : keys) each = any_number(bytes);
      return {masks::prefix(keys), [=](int64_t b, int64_t, int64_t, int64_t j) { return j < keys[static_cast<size_t>(b)]; }};
    }
    default: {
      const NestedTensor q = ids(batch.rows), k = ids(batch.keys);
      return {masks::documents(q, k), [=](int64_t b, int64_t, int64_t i, int64_t j) {
                return q.values().data<int64_t>()[q.ragged()->offsets()[static_cast<size_t>(b)] + i] ==
                       k.values().data<int64_t>()[k.ragged()->offsets()[static_cast<size_t>(b)] + j];
              }};
    }
  }
}

Said expression(Bytes& bytes, const Batch& batch, int depth) {
  const int64_t kind = depth == 0 ? 0 : bytes.below(4);
  if (kind == 0) return leaf(bytes, batch);
  const Said a = expression(bytes, batch, depth - 1);
  if (kind == 1) return {!a.mask, [a](auto... at) { return !a.sees(at...); }};
  const Said b = expression(bytes, batch, depth - 1);
  if (kind == 2) return {a.mask || b.mask, [a, b](auto... at) { return a.sees(at...) || b.sees(at...); }};
  return {a.mask && b.mask, [a, b](auto... at) { return a.sees(at...) && b.sees(at...); }};
}

bool compiled_sees(const CompiledMask& mask, const Batch& batch, const Ragged& q, int64_t b, int64_t i, int64_t j) {
  const auto at = static_cast<size_t>(b);
  const int64_t distance = j - (i + (mask.alignment == Alignment::top_left ? 0 : batch.keys[at] - batch.rows[at]));
  if ((mask.causal && distance > 0) || (mask.left >= 0 && -distance > mask.left) || (mask.right >= 0 && distance > mask.right))
    return false;
  if (!mask.bounds.empty()) {
    bool inside = false;
    const int32_t* bounds = mask.bounds.data() + (q->offsets()[at] + i) * mask.range_count * 2;
    for (int n = 0; n < mask.range_count; ++n) inside = inside || (j >= bounds[2 * n] && j < bounds[2 * n + 1]);
    if (!inside) return false;
  }
  if (!mask.plane.defined()) return true;
  const int64_t place[4] = {b, 0, i, j};
  int64_t offset = 0;
  for (int d = 0; d < 4; ++d) offset += (mask.plane.size(d) == 1 ? 0 : place[d]) * mask.plane.stride(d);
  return mask.plane.data<bool>()[offset];
}

void check_groups(const RaggedShape& shape, int64_t choice) {
  const auto dims = static_cast<uint64_t>(1 + choice % ((int64_t{2} << shape.ragged_dims()) - 1));
  const std::shared_ptr<const RaggedShape> groups = shape.row_map().groups(dims);
  require(groups->rows() == shape.rows(), "groups of other rows");
  std::vector<int64_t> rows(groups->order().begin(), groups->order().end());
  std::sort(rows.begin(), rows.end());
  for (size_t row = 0; row < rows.size(); ++row) require(rows[row] == static_cast<int64_t>(row), "a row in two groups");
}

}  // namespace

bool mask(std::string_view input) {
  Bytes bytes(input);
  Batch batch;
  for (int64_t sequences = 1 + bytes.below(3); sequences > 0; --sequences) {
    batch.rows.push_back(bytes.below(8));
    batch.keys.push_back(bytes.below(8));
  }
  try {
    const Said said = expression(bytes, batch, 5);
    const Ragged q = Ragged::from_lengths(batch.rows), k = Ragged::from_lengths(batch.keys);
    const CompiledMask compiled = compile_mask(said.mask, q, k, 1);
    for (size_t b = 0; b < batch.rows.size(); ++b) {
      for (int64_t i = 0; i < batch.rows[b]; ++i) {
        for (int64_t j = 0; j < batch.keys[b]; ++j) {
          const auto at = static_cast<int64_t>(b);
          require(compiled_sees(compiled, batch, q, at, i, j) == said.sees(at, 0, i, j),
                  "query " + std::to_string(i) + " and key " + std::to_string(j) + " of sequence " + std::to_string(b));
        }
      }
    }
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// Input: a way to make a ragged shape, then numbers.
bool ragged(std::string_view input) {
  Bytes bytes(input);
  const int64_t way = bytes.below(5), ragged_dims = 1 + bytes.below(3), rows = bytes.below(12), bytes_of_dims = bytes.byte();
  std::vector<int64_t> numbers;
  while (!bytes.empty() && numbers.size() < 64) numbers.push_back(any_number(bytes));
  try {
    const Tensor values = zeros_raw({rows, 2}, DType::float64, Device());
    const Tensor as_tensor = zeros_raw({static_cast<int64_t>(numbers.size())}, DType::int64, Device());
    std::copy(numbers.begin(), numbers.end(), as_tensor.data<int64_t>());
    Ragged shape;
    NestedTensor nested;
    switch (way) {
      case 0:
        shape = Ragged::from_offsets(numbers);
        break;
      case 1:
        shape = Ragged(std::make_shared<const RaggedShape>(numbers, static_cast<int>(ragged_dims)));
        break;
      case 2:
        nested = NestedTensor::from_offsets(values, as_tensor);
        break;
      case 3:
        nested = NestedTensor::from_lengths(values, as_tensor);
        break;
      default:
        nested = NestedTensor::from_padded(zeros_raw({static_cast<int64_t>(numbers.size()), rows, 1}, DType::float64, Device()),
                                           as_tensor);
    }
    if (nested.defined()) shape = nested.ragged();
    int64_t total = 0;
    for (int64_t b = 0; b < shape->components(); ++b) {
      int64_t of_one = 1;
      for (int d = 0; d < shape->ragged_dims(); ++d) {
        require(shape->size(b, d) >= 0, "a negative size");
        of_one *= shape->size(b, d);
      }
      require(shape->offsets()[static_cast<size_t>(b)] == total, "an offset is not the sum of what comes before it");
      total += of_one;
    }
    require(shape->rows() == total && total >= 0, "the rows are not the sum of the components'");
    (void)to_string(shape);
    if (total < 1000) {
      const auto components = shape->row_map().components();
      require(static_cast<int64_t>(components.size()) == total && std::is_sorted(components.begin(), components.end()),
              "rows and their components");
      double box = 1;  // groups that an op may have, also of no rows
      for (int d = 0; d < shape->ragged_dims(); ++d) box *= static_cast<double>(std::max<int64_t>(shape->max_size(d), 1));
      if (box < 10000) check_groups(*shape, bytes_of_dims);
    }
    if (nested.defined()) {
      require(nested.values().size(0) == total, "values of other rows than the shape's");
      for (const Tensor& component : nested.unbind()) (void)component.to_vector();
      if (shape->ragged_dims() == 1) (void)nested.to_padded();
      (void)nested.padding_mask();
    }
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace deckle::fuzz
