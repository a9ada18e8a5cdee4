#include <algorithm>
#include <limits>
#include <vector>

#include "deckle/core/tensor_impl.h"
#include "deckle/nested/nested_tensor.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/targets.h"
#include "tests/support/mask_case.h"

namespace deckle::fuzz {
namespace {

int64_t any_number(Bytes& bytes) {
  static const int64_t kLargest = std::numeric_limits<int64_t>::max();
  static const int64_t kEdges[] = {
      -1, std::numeric_limits<int64_t>::min(), kLargest, kLargest - 1, int64_t{1} << 32, int64_t{1} << 62, 1 << 20};
  const uint8_t kind = bytes.byte();
  if (kind < 200) return kind % 9;
  if (kind < 240) return kEdges[kind % 7];
  return bytes.word();
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

/// Input: the numbers that a batch and a mask are drawn by.
bool mask(std::string_view input) {
  Bytes bytes(input);
  testing::MaskDrawer drawer([&](int64_t low, int64_t high) { return low + bytes.below(high - low + 1); });
  drawer.hostile = true;
  const testing::MaskBatch batch = drawer.batch(15);
  try {
    const testing::MaskCase drawn = drawer.mask(batch, 5);
    const std::string differs = compiled_mask_differs(drawn, batch);
    require(differs.empty(), differs);
    require(drawer.fits, "a mask that does not fit is compiled: " + drawn.text);
    return true;
  } catch (const Error& error) {
    require(!drawer.fits, std::string("a mask that fits is refused: ") + error.what());
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
