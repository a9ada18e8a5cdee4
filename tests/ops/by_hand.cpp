#include "tests/ops/by_hand.h"

#include <fmt/format.h>

#include <gtest/gtest.h>

#include <algorithm>

#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/shape.h"
#include "tests/ops/nested_device.h"
#include "tests/ops/suite_support.h"
#include "tests/support/random.h"

namespace deckle::suite {
namespace {

std::vector<NestedTensor> with_values(const std::vector<NestedTensor>& operands, const Tensors& values) {
  std::vector<NestedTensor> result;
  for (size_t i = 0; i < operands.size(); ++i) result.emplace_back(values[i], operands[i].ragged());
  return result;
}

Tensors flattened(const Parts& parts) {
  Tensors result;
  for (const Tensors& part : parts) {
    Tensors flat;
    for (const Tensor& tensor : part) flat.push_back(reshape(tensor, {-1}));
    if (!flat.empty()) result.push_back(cat(flat, 0));
  }
  return result;
}

void expect_shapes(const Parts& got, const Parts& expected) {
  ASSERT_EQ(got.size(), expected.size()) << "results";
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].size(), expected[i].size()) << "components of result " << i;
    for (size_t b = 0; b < got[i].size(); ++b) {
      EXPECT_EQ(to_string(got[i][b].sizes()), to_string(expected[i][b].sizes())) << "component " << b << " of result " << i;
      EXPECT_EQ(name(got[i][b].dtype()), name(expected[i][b].dtype()));
    }
  }
}

NestedTensor random_integers(const Ragged& ragged, const Dims& regular, const std::function<int64_t(int64_t b)>& draw) {
  Dims sizes = {ragged->rows()};
  for (const int64_t size : regular) sizes.push_back(size);
  const Tensor values = zeros_raw(sizes, DType::int64, Device());
  auto* next = values.data<int64_t>();
  for (int64_t b = 0; b < ragged->components(); ++b) {
    const int64_t count =
        (ragged->offsets()[static_cast<size_t>(b) + 1] - ragged->offsets()[static_cast<size_t>(b)]) * numel_of(regular);
    for (int64_t i = 0; i < count; ++i) *next++ = draw(b);
  }
  return {values, ragged};
}

}  // namespace

void check(const HandCase& op) {
  SCOPED_TRACE(op.name);
  try {
    expect_shapes(op.nested(op.operands), op.loop(op.operands));
    if (::testing::Test::HasFatalFailure()) return;
    Agreement on;
    for (const NestedTensor& operand : op.operands) {
      on.operands.push_back(operand.values());
      on.differentiable.push_back(operand.dtype() == DType::float64);
    }
    on.derivatives = std::find(on.differentiable.begin(), on.differentiable.end(), true) != on.differentiable.end();
    const auto nested = [&](const Tensors& x) { return flattened(op.nested(with_values(op.operands, x))); };
    if (on_device()) {
      check_batch_on_device(op.name, on, nested);
    } else {
      expect_agreement(on, nested, [&](const Tensors& x) { return flattened(op.loop(with_values(op.operands, x))); });
    }
  } catch (const Error& error) {
    ADD_FAILURE() << error.message();
  }
  for (const Over over : op.over) covered(op.name, over);
  if (op.over.empty()) covered_function(op.name);
}

void for_patterns(int ragged_dims, const std::function<void(const Ragged& ragged)>& body) {
  const std::vector<std::vector<int64_t>> one = {{3, 0, 5, 1}, {0, 0}, {4, 2, 6}, {0, 4, 2, 0}},
                                          two = {{2, 3, 0, 2, 1, 4}, {0, 3, 2, 0}, {2, 2, 3, 1, 4, 3}};
  for (const std::vector<int64_t>& sizes : ragged_dims == 1 ? one : two) {
    SCOPED_TRACE(fmt::format("{} ragged dim(s), sizes [{}]", ragged_dims, fmt::join(sizes, ", ")));
    body(Ragged(std::make_shared<const RaggedShape>(sizes, ragged_dims)));
  }
}

NestedTensor normal(const Ragged& ragged, Dims regular) {
  regular.insert(regular.begin(), ragged->rows());
  return {testing::random_tensor(regular), ragged};
}

NestedTensor dense_normal(Ints sizes) { return {testing::random_tensor(sizes), Ragged()}; }

NestedTensor indices(const Ragged& ragged, int64_t longest, const std::function<int64_t(int64_t b)>& ceiling) {
  std::vector<int64_t> lengths;
  for (int64_t b = 0; b < ragged->components(); ++b) lengths.push_back(ceiling(b) > 0 ? testing::random_integer(0, longest) : 0);
  return random_integers(Ragged::from_lengths(lengths), {},
                         [&](int64_t b) { return testing::random_integer(0, ceiling(b) - 1); });
}

NestedTensor integers(const Ragged& ragged, int64_t low, int64_t high, Dims regular) {
  return random_integers(ragged, regular, [&](int64_t) { return testing::random_integer(low, high - 1); });
}

NestedTensor mask(const Ragged& ragged, Dims regular) {
  const NestedTensor bits = integers(ragged, 0, 2, std::move(regular));
  return {to(bits.values(), DType::bool_), ragged};
}

Tensors each(const NestedTensor& x, const std::function<Tensor(int64_t b)>& f) {
  Tensors result;
  for (int64_t b = 0; b < x.components(); ++b) result.push_back(f(b));
  return result;
}

Parts parts(const std::vector<NestedTensor>& results) {
  Parts result;
  for (const NestedTensor& one : results) result.push_back(parts(one));
  return result;
}

}  // namespace deckle::suite
