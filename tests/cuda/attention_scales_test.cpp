// float32 attention on operands whose rows or columns differ by orders of magnitude, row by row and column by column beside plain
// float32 and float64 of the same numbers: the kernels of tensor cores split a number by the largest of its head, which other
// rows may have, even ones behind the mask.
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "deckle/deckle.h"
#include "tests/cuda/gpu.h"

namespace deckle {
namespace {

const std::vector<int64_t> kLengths = {70, 0, 3, 129};
constexpr int64_t kRows = 202, kHeads = 2, kWidth = 64, kLast = 201;  // kLast: of the last sequence

struct Case {
  const char* name;
  std::function<void(Tensor&, Tensor&, Tensor&, Tensor&)> change;  // q, k, v and the gradient of the result, [rows, heads, width]
};

/// 1e-12 to 1e12, one of each column.
Tensor of_all_sizes() {
  std::vector<float> sizes;
  for (int64_t column = 0; column < kWidth; ++column) sizes.push_back(std::pow(10.0f, static_cast<float>(column % 13 * 2 - 12)));
  return tensor(sizes);
}

std::vector<Case> cases() {
  const auto scale_row = [](Tensor& x, int64_t row, double by) { x.index_put_({row}, x[row] * by); };
  return {
      {"as they are", [](Tensor&, Tensor&, Tensor&, Tensor&) {}},
      {"a large value behind the mask", [=](Tensor&, Tensor&, Tensor& v, Tensor&) { scale_row(v, kLast, 1e13); }},
      {"a larger value", [=](Tensor&, Tensor&, Tensor& v, Tensor&) { scale_row(v, kLast, 1e4); }},
      {"a large key behind the mask", [=](Tensor&, Tensor& k, Tensor&, Tensor&) { scale_row(k, kLast, 1e9); }},
      {"a large query", [=](Tensor& q, Tensor&, Tensor&, Tensor&) { scale_row(q, kLast, 1e9); }},
      {"a large gradient", [=](Tensor&, Tensor&, Tensor&, Tensor& g) { scale_row(g, kLast, 1e11); }},
      {"small gradients", [=](Tensor&, Tensor&, Tensor&, Tensor& g) { g.mul_(1e-30); }},
      {"columns of all sizes in v", [=](Tensor&, Tensor&, Tensor& v, Tensor&) { v.mul_(of_all_sizes()); }},
      {"columns of all sizes in the gradient", [=](Tensor&, Tensor&, Tensor&, Tensor& g) { g.mul_(of_all_sizes()); }},
      {"columns of q as much larger as k's are smaller",
       [=](Tensor& q, Tensor& k, Tensor&, Tensor&) {
         q.mul_(of_all_sizes());
         k.div_(of_all_sizes());
       }},
      {"zero rows beside others",
       [=](Tensor& q, Tensor& k, Tensor& v, Tensor& g) {
         for (Tensor* x : {&q, &k, &v, &g}) scale_row(*x, 5, 0);
       }},
  };
}

/// The result and the gradients of q, k and v.
std::vector<Tensor> computed(const std::vector<Tensor>& given, DType dtype, const AttentionMask& mask) {
  std::vector<Tensor> leaves;
  for (size_t i = 0; i < 3; ++i) leaves.push_back(given[i].to(dtype).to(Device::cuda()).detach().requires_grad_());
  const Ragged rows = Ragged::from_lengths(kLengths);
  const NestedTensor out =
      attention(NestedTensor(leaves[0], rows), NestedTensor(leaves[1], rows), NestedTensor(leaves[2], rows), {.mask = mask});
  out.values().backward(given[3].to(dtype).to(Device::cuda()));
  std::vector<Tensor> results = {out.values().detach().to(Device())};
  for (const Tensor& leaf : leaves) results.push_back(leaf.grad().to(Device()));
  return results;
}

/// Of each row over its columns, or of each column over the rows.
Tensor size_over(const Tensor& x, int64_t dim) { return sum(square(x), Ints{dim}).sqrt(); }

/// Rows that see three keys or more. With fewer, dq is what is left of terms that cancel.
Tensor compared_rows() {
  std::vector<int64_t> rows;
  int64_t first = 0;
  for (const int64_t length : kLengths) {
    for (int64_t row = 2; row < length; ++row) rows.push_back(first + row);
    first += length;
  }
  return tensor(rows);
}

TEST(CudaAttentionScales, RowsAndColumnsKeepTheirPrecisionBesideLargerOnes) {
  NEEDS_CUDA_KERNELS();
  const AttentionMask causal = masks::causal(), as_bytes = masks::boolean(ones({1, 1, 129, 129}).tril() > 0);  // plain float32
  for (const Case& each : cases()) {
    SCOPED_TRACE(each.name);
    std::vector<Tensor> given;
    for (int i = 0; i < 4; ++i) given.push_back(randn({kRows, kHeads, kWidth}));
    each.change(given[0], given[1], given[2], given[3]);
    const std::vector<Tensor> got = computed(given, DType::float32, causal), plain = computed(given, DType::float32, as_bytes),
                              expected = computed(given, DType::float64, causal);
    const char* names[] = {"out", "dq", "dk", "dv"};
    for (size_t i = 0; i < got.size(); ++i) {
      for (const int64_t dim : {2, 0}) {
        const auto size = [&](const Tensor& x) { return size_over(index_select(x, 0, compared_rows()), dim); };
        const Tensor allowed = size(expected[i]) * 1e-5 + size(plain[i].to(DType::float64) - expected[i]) * 8.0;
        const Tensor error = size(got[i].to(DType::float64) - expected[i]);
        EXPECT_EQ(sum(error > allowed).item(), 0) << names[i] << ": " << (dim == 2 ? "rows" : "columns") << " of "
                                                  << error.numel() << "; the largest error " << max(error).item();
      }
    }
  }
}

// As in plain float32. Of the two parts of infinity the lower one is NaN: they alone would make NaN of the row that sees it.
TEST(CudaAttentionScales, AnInfiniteValueReachesTheRowsThatSeeItAlone) {
  NEEDS_CUDA_KERNELS();
  std::vector<Tensor> given;
  for (int i = 0; i < 4; ++i) given.push_back(randn({kRows, kHeads, kWidth}));
  given[2].index_put_({kLast}, full({kHeads, kWidth}, INFINITY));
  const std::vector<Tensor> got = computed(given, DType::float32, masks::causal());
  EXPECT_TRUE(all(got[0][kLast] == INFINITY).item() != 0) << "out of the row that sees it";
  EXPECT_TRUE(all(isfinite(got[0].narrow(0, 0, kLast))).item() != 0) << "out of rows before it";
  EXPECT_TRUE(all(isfinite(got[1].narrow(0, 0, kLast))).item() != 0) << "dq of rows before it";
  EXPECT_TRUE(all(isfinite(got[2].narrow(0, 0, kLast - 128))).item() != 0) << "dk of other sequences";
  EXPECT_TRUE(all(isfinite(got[3])).item() != 0) << "dv, which is of no values";
}

}  // namespace
}  // namespace deckle
