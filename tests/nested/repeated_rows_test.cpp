// Rows that repeat, as operands of pointwise ops: the same bits as if they were written out, in every mode of derivatives, and no
// memory for it.

#include "deckle/autograd/backward.h"
#include "deckle/core/allocator.h"
#include "deckle/functional/transforms.h"
#include "deckle/nested/generated/pointwise.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/segment.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/ops/launch.h"
#include "tests/nested/support.h"

namespace deckle {
namespace {

using namespace testing;

using Binary = std::function<Tensor(const RowOperand&, const RowOperand&)>;

/// Ops of two operands, smooth in both on positive numbers.
const std::vector<std::pair<const char*, Binary>>& binary_ops() {
  static const std::vector<std::pair<const char*, Binary>> ops = {
      {"add", [](const RowOperand& a, const RowOperand& b) { return detail::add(a, b); }},
      {"sub", [](const RowOperand& a, const RowOperand& b) { return detail::sub(a, b); }},
      {"mul", [](const RowOperand& a, const RowOperand& b) { return detail::mul(a, b); }},
      {"div", [](const RowOperand& a, const RowOperand& b) { return detail::div(a, b); }},
      {"pow", [](const RowOperand& a, const RowOperand& b) { return detail::pow(a, b); }},
      {"maximum", [](const RowOperand& a, const RowOperand& b) { return detail::maximum(a, b); }},
  };
  return ops;
}

Tensor positive(Ints sizes) { return exp(random_tensor(sizes) * 0.3); }

const Ragged& shape() {
  static const Ragged ragged = Ragged::from_lengths(std::vector<int64_t>{3, 0, 5, 1});
  return ragged;
}

TEST(RepeatedRows, HaveTheBitsOfRowsWrittenOut) {
  const Tensor x = positive({9, 2, 8}), rows = positive({4, 1, 8});
  for (const auto& [name, op] : binary_ops()) {
    SCOPED_TRACE(name);
    const Tensor whole = segment_broadcast(rows, shape());
    expect_equal(op(x, RepeatedRows(rows, shape())), op(x, whole));
    expect_equal(op(RepeatedRows(rows, shape()), x), op(whole, x));
    expect_equal(op(RepeatedRows(rows, shape()), RepeatedRows(rows, shape())), op(whole, whole));
    const Tensor halves = to(x, DType::bfloat16);
    expect_equal(op(halves, RepeatedRows(to(rows, DType::float32), shape())), op(halves, to(whole, DType::float32)));
  }
}

TEST(RepeatedRows, MayHaveAnyStrides) {
  for (const int64_t inner : {int64_t{8}, int64_t{300}}) {  // read in blocks, and row by row
    const Tensor x = positive({9, inner});
    for (const Tensor& rows : {expand(positive({4, 1}), {4, inner}), transpose(positive({inner, 4}), 0, 1)}) {
      const Tensor whole = segment_broadcast(rows, shape());
      for (const auto& [name, op] : binary_ops()) {
        SCOPED_TRACE(name);
        expect_close(op(x, RepeatedRows(rows, shape())), op(x, whole), 1e-12);
      }
    }
  }
  const NestedTensor x(positive({9, 20}), shape());
  const Tensor other = positive({4, 1, 1});
  expect_equal(mul(x, expand(other, {4, 1, 20})).values(), mul(x, other).values());
}

TEST(RepeatedRows, HaveDerivativesInEveryMode) {
  const Tensor x = positive({9, 8}), rows = positive({4, 8});
  for (const auto& [name, op] : binary_ops()) {
    SCOPED_TRACE(name);
    expect_gradients([&op = op](const Tensor& a, const Tensor& b) { return op(a, RepeatedRows(b, shape())); },
                     std::tuple(x, rows));
    expect_gradients([&op = op](const Tensor& a, const Tensor& b) { return op(RepeatedRows(b, shape()), a); },
                     std::tuple(x, rows));
    expect_gradients([&op = op](const Tensor& b) { return op(RepeatedRows(b, shape()), RepeatedRows(b * 2, shape())); }, rows);
  }
  const auto gated = [](const Tensor& a, const Tensor& b) {
    return detail::where(detail::gt(a, RepeatedRows(b, shape())), RepeatedRows(b, shape()), a);
  };
  expect_gradients(gated, std::tuple(x, rows));
}

TEST(RepeatedRows, GetTheirGradientWhereTheResultHasMoreDims) {
  const Tensor rows = positive({4, 8}), gradient = positive({2, 9, 8});
  const OperandSizes sizes{RowOperand(RepeatedRows(rows, shape()))};
  expect_close(sum_to(gradient, sizes), segment_sum(sum(gradient, {0}), shape()), 1e-12);
  const OperandSizes narrow{RowOperand(RepeatedRows(positive({4, 1}), shape()))};
  expect_close(sum_to(gradient, narrow), sum(segment_sum(sum(gradient, {0}), shape()), {1}, true), 1e-12);
}

TEST(RepeatedRows, ThirdDerivativesAreThoseOfRowsWrittenOut) {
  const Tensor x = positive({9, 8}), rows = positive({4, 8});
  const auto third = [&](bool written) {
    const Tensor a = x.detach().requires_grad_(), b = rows.detach().requires_grad_();
    const RepeatedRows repeated = written ? RepeatedRows(segment_broadcast(b, shape())) : RepeatedRows(b, shape());
    Tensor value = sum(detail::pow(a, repeated));
    for (const Tensor& variable : {b, a}) value = sum(square(grad({value}, {variable}, {.create_graph = true})[0]));
    return grad({value}, {b})[0];
  };
  expect_close(third(false), third(true), 1e-12);
}

TEST(RepeatedRows, ThatChangeAfterTheCallAreRefusedInBackward) {
  const Tensor x = random_tensor({9, 8}).requires_grad_(), rows = random_tensor({4, 8});
  const Tensor before = clone(rows), product = detail::mul(x, RepeatedRows(rows, shape()));
  rows.fill_(7);
  expect_equal(product.detach(), mul(x.detach(), segment_broadcast(before, shape())));
  expect_error([&] { sum(product).backward(); }, "was changed in place afterwards");
}

TEST(RepeatedRows, TakeNoMemoryOfTheirOwn) {
  const int64_t length = 4096;
  const Ragged two = Ragged::from_lengths(std::vector<int64_t>{length, length});
  two->row_map().components();
  const NestedTensor x(random_tensor({2 * length, 64}).requires_grad_(), two);
  const Tensor rows = random_tensor({2, 1, 64}).requires_grad_();
  const int64_t bytes = x.values().numel() * 8;
  const auto peak_of = [](const auto& call) {
    const int64_t before = memory_stats().in_use;
    reset_peak_memory();
    call();
    return memory_stats().peak - before;
  };
  Tensor total;
  EXPECT_LT(peak_of([&] { total = sum(mul(x, rows).values()); }), bytes * 3 / 2) << "the product";
  EXPECT_LT(peak_of([&] { grad({total}, {rows}); }), bytes * 5 / 2) << "the gradients of the sum and of the product";
}

TEST(RepeatedRows, ThatAreShortAreWrittenOut) {
  const Tensor rows = random_tensor({4, 3}), long_rows = random_tensor({4, 8});
  EXPECT_FALSE(launch::repeat_by(rows, shape()).ragged.defined());
  EXPECT_TRUE(launch::repeat_by(long_rows, shape()).ragged.defined());
  expect_equal(launch::written_out(launch::repeat_by(long_rows, shape())), segment_broadcast(long_rows, shape()));
}

}  // namespace
}  // namespace deckle
