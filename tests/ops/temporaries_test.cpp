// What is written through a view of a temporary is either seen by somebody or an Error; lists hold what has no name.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "deckle/core/from_data.h"
#include "deckle/nested/nested_tensor.h"
#include "deckle/nested/operators.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/ops/indexing.h"
#include "tests/support/expect.h"

namespace deckle {
namespace {

using Values = std::vector<double>;
constexpr auto kLost = "nothing holds the tensor that is assigned to";

Tensor counted() { return arange(6, DType::float32).view(2, 3); }

TEST(Temporaries, ByMethodsThatShowThemAreNotWritten) {
  const Tensor x = counted(), rows = tensor<int64_t>({0, 1});
  for (const auto& [name, write] : std::vector<std::pair<const char*, std::function<void()>>>{
           {"select", [&] { x[rows].select(1, 0) = 9; }},
           {"slice", [&] { x[rows].slice(1, 0, 2) = 9; }},
           {"narrow", [&] { x[rows].narrow(1, 0, 2) = 9; }},
           {"view", [&] { x[rows].view(6) = 9; }},
           {"view of several", [&] { x[rows].view(3, 2) = 9; }},
           {"view_as", [&] { x[rows].view_as(x) = 9; }},
           {"reshape", [&] { x[rows].reshape(3, 2) = 9; }},
           {"flatten", [&] { x[rows].flatten() = 9; }},
           {"ravel", [&] { x[rows].ravel() = 9; }},
           {"transpose", [&] { x[rows].transpose(0, 1) = 9; }},
           {"t", [&] { x[rows].t() = 9; }},
           {"T", [&] { x[rows].T() = 9; }},
           {"mT", [&] { x[rows].mT() = 9; }},
           {"permute", [&] { x[rows].permute(1, 0) = 9; }},
           {"movedim", [&] { x[rows].movedim(0, 1) = 9; }},
           {"unsqueeze", [&] { x[rows].unsqueeze(0) = 9; }},
           {"squeeze", [&] { x[rows].squeeze() = 9; }},
           {"squeeze of a dim", [&] { x[rows].squeeze(0) = 9; }},
           {"expand",
            [&] {
              x[rows].expand({2, 3}) = 9;
            }},
           {"diagonal", [&] { x[rows].diagonal() = 9; }},
           {"as_strided", [&] { x[rows].as_strided({2}, {1}) = 9; }},
           {"contiguous", [&] { x[rows].contiguous() = 9; }},
           {"to", [&] { x[rows].to(DType::float32) = 9; }},
           {"to a device", [&] { x[rows].to(Device{}) = 9; }},
           {"detach", [&] { x[rows].detach() = 9; }},
           {"index",
            [&] {
              x[rows].index({slice(), 0}) = 9;
            }},
           {"two in a row", [&] { x[rows].t().select(0, 1) = 9; }},
           {"of a sum", [&] { (x + 1).select(1, 0) = 9; }},
           {"of a clone", [&] { x.clone().t() += 9; }},
           {"of another dtype", [&] { x.to(DType::float64).select(0, 1) = 9; }},
           {"a function", [&] { select(x[rows], 1, 0) = 9; }},
           {"two functions", [&] { reshape(transpose(x + 1, 0, 1), {6}) = 9; }},
       }) {
    SCOPED_TRACE(name);
    testing::expect_error(write, kLost);
  }
  EXPECT_TRUE(x.equal(counted()));
}

TEST(Temporaries, ThatShowSomethingHeldAreWritten) {
  const Tensor x = zeros({2, 3});
  x[0].slice(0, 1, 3) = 1;
  x.t().select(0, 0) = 2;
  x.view(6).view(2, 3)[1][1] = 3;
  transpose(x[1].unsqueeze(0), 0, 1)[2] = 4;
  x.detach().select(0, 0)[2] += 5;
  EXPECT_EQ(x.to_vector(), (Values{2, 1, 6, 2, 3, 4}));
  auto rows = x[tensor<int64_t>({1})];
  rows.select(1, 0) = 7;  // a name for the copy
  EXPECT_EQ(rows.to_vector(), (Values{7, 3, 4}));
}

TEST(Temporaries, ThatAreNestedAreNotWritten) {
  const NestedTensor n = NestedTensor::from_lengths(counted().t().contiguous(), {2, 1});
  const Values before = n.values().to_vector();
  testing::expect_error([&] { (n + 1)[0] = 9; }, kLost);
  testing::expect_error([&] { (n + 1).values()[0] = 9; }, kLost);
  EXPECT_EQ(n.values().to_vector(), before);
  n[1] = 9;
  EXPECT_EQ(n[1].to_vector(), (Values{9, 9}));
  static_assert(!std::is_assignable_v<NestedTensor, NestedTensor> && std::is_assignable_v<NestedTensor&, NestedTensor>);
}

TEST(Assignments, DoNotNarrow) {
  const Tensor i = arange(3), m = tensor({true, false});
  constexpr auto narrow = "and cannot be written into";
  testing::expect_error([&] { i[0] = tensor(2.7); }, narrow);
  testing::expect_error([&] { i[slice(0, 2)] = tensor({NAN, 1.0}); }, narrow);
  testing::expect_error([&] { m[0] = tensor(0.5f); }, narrow);
  i[0] = tensor(true);
  i[1] = tensor(7);
  EXPECT_EQ(i.to_vector(), (Values{1, 7, 2}));
  i[2].copy_(tensor(2.7));  // converts
  EXPECT_EQ(i.to_vector(), (Values{1, 7, 2}));
}

TEST(Chains, MeanWhatPythonMeansOrAreErrors) {
  const Tensor x = tensor({1.0, 5.0}), i = arange(4);
  constexpr auto order = "truth values are compared with numbers", bits = "integers meet true or false";
  testing::expect_error([&] { 0 < x < 3; }, order);
  testing::expect_error([&] { x >= x > x; }, order);
  testing::expect_error([&] { i&(1 == 0); }, bits);
  testing::expect_error([&] { (1 == 1) ^ i; }, bits);
  const NestedTensor n = NestedTensor::from_lengths(x, {1, 1});
  testing::expect_error([&] { 0 < n < 3; }, order);
  testing::expect_error([&] { (n > 0) <= 1; }, order);
  EXPECT_EQ(((0 < x) & (x < 3)).to_vector(), (Values{1, 0}));
  EXPECT_EQ(((i & 1) == 0).to_vector(), (Values{1, 0, 1, 0}));
  EXPECT_EQ(((x > 3) <= true).to_vector(), (Values{1, 1}));
}

TEST(Lists, HoldWhatHasNoName) {
  const Tensor x = counted();
  TensorList braces = {x + 1, x}, one = x + 2, vector = std::vector<Tensor>{x + 3, x}, copy = braces;
  braces = TensorList();
  const std::vector<Tensor> noise(8, zeros({2, 3}));  // in the memory that was free
  EXPECT_EQ(copy[0][0].to_vector(), (Values{1, 2, 3}));
  EXPECT_TRUE(copy[1].is_same(x));
  EXPECT_EQ(one[0][0].to_vector(), (Values{2, 3, 4}));
  EXPECT_EQ(vector[0][0].to_vector(), (Values{3, 4, 5}));
}

TEST(Lists, ShowWhatHasAName) {
  const std::vector<Tensor> named = {counted(), counted()};
  const TensorList list = named, single = named[1];
  EXPECT_EQ(list.data(), named.data());
  EXPECT_EQ(single.data(), &named[1]);
}

TEST(Results, AreBoundAsTheyAreNow) {
  auto largest = counted().max(0);
  largest.values = largest.values * 10;
  const auto [values, indices] = largest;
  EXPECT_EQ(values.to_vector(), (Values{30, 40, 50}));
  auto& [same, other] = largest;
  EXPECT_TRUE(same.is_same(largest.values) && other.is_same(indices));
}

}  // namespace
}  // namespace deckle
