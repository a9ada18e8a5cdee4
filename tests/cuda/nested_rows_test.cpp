// Indices of rows that follow from a ragged shape and numbers are uploaded once for the shape.
#include <functional>
#include <string>
#include <vector>

#include "deckle/deckle.h"
#include "deckle/nested/pooling.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"

namespace deckle {
namespace {

int64_t uploads() { return cuda::counters(kGpu).uploads; }

using Batches = std::vector<NestedTensor>;

/// An op of a batch and a number, 1 or 2: results of the one are not those of the other.
struct Op {
  std::string name;
  std::function<Batches(const NestedTensor& x, int64_t n)> call;
};

NestedTensor dense(const Tensor& tensor) { return {tensor, Ragged()}; }
Tensor waves(IntSpan sizes, Device device) {  // made there: factories upload nothing
  return reshape(sin(cumsum(ones({numel_of(sizes)}, DType::float32, device), 0)), sizes);
}
Batches pair_of(const std::tuple<NestedTensor, NestedTensor>& results) { return {std::get<0>(results), std::get<1>(results)}; }

std::vector<Op> ops_of_any_shape() {
  return {
      {"to_padded", [](const auto& x, int64_t n) { return Batches{dense(to_padded(x, {.sizes = {8 + n}}))}; }},
      {"padding_mask", [](const auto& x, int64_t n) { return Batches{dense(padding_mask(x, {.sizes = {8 + n}}))}; }},
      {"padded at a side",
       [](const auto& x, int64_t n) { return Batches{dense(to_padded(x, {.side = n == 1 ? PadSide::left : PadSide::right}))}; }},
      {"from_padded",
       [](const auto& x, int64_t n) {
         return Batches{from_padded(to_padded(x, {}), x.ragged(), n == 1 ? PadSide::left : PadSide::right)};
       }},
      {"roll", [](const auto& x, int64_t n) { return Batches{roll(x, n, 1)}; }},
      {"roll of components", [](const auto& x, int64_t n) { return Batches{roll(x, n, 0)}; }},
      {"shift", [](const auto& x, int64_t n) { return Batches{shift(x, n, 1, -3.0)}; }},
      {"slice", [](const auto& x, int64_t n) { return Batches{slice(x, 1, n, 7, 2)}; }},
      {"slice of components", [](const auto& x, int64_t n) { return Batches{slice(x, 0, n - 1, 4, 2)}; }},
      {"split", [](const auto& x, int64_t n) { return split(x, n + 1, 1); }},
      {"chunk", [](const auto& x, int64_t n) { return chunk(x, n + 1, 1); }},
      {"flip", [](const auto& x, int64_t n) { return Batches{flip(x, {n - 1})}; }},
      {"pad",
       [](const auto& x, int64_t n) {
         return Batches{pad(x, IntSpan({0, 0, n, 1}))};
       }},
      {"repeat",
       [](const auto& x, int64_t n) {
         Dims times(static_cast<size_t>(x.dim()), 1);
         times[0] = n;
         times[1] = 3 - n;
         return Batches{repeat(x, times)};
       }},
      {"repeat_interleave", [](const auto& x, int64_t n) { return Batches{repeat_interleave(x, n + 1, 1)}; }},
      {"cat",
       [](const auto& x, int64_t n) {
         return Batches{n == 1 ? cat({x, x}, 1) : cat({x, x, x}, 1)};
       }},
      {"cat of components",
       [](const auto& x, int64_t n) {
         return Batches{n == 1 ? cat({x, x}, 0) : cat({x, x, x}, 0)};
       }},
      {"stack",
       [](const auto& x, int64_t n) {
         return Batches{n == 1 ? stack({x, x}, 1) : stack({x, x, x}, 1)};
       }},
      {"unsqueeze", [](const auto& x, int64_t n) { return Batches{sum(unsqueeze(x, n), {1})}; }},
      {"cumprod", [](const auto& x, int64_t n) { return Batches{cumprod(x * static_cast<double>(n), 1)}; }},
      {"median", [](const auto& x, int64_t n) { return pair_of(median(x, n - 1)); }},
      {"argmax", [](const auto& x, int64_t n) { return Batches{argmax(x, n - 1)}; }},
      {"topk", [](const auto& x, int64_t n) { return pair_of(topk(x, n, 1)); }},
  };
}

std::vector<Op> ops_of_rows() {
  std::vector<Op> ops = ops_of_any_shape();
  ops.push_back({"select", [](const auto& x, int64_t n) { return Batches{select(x, 1, n - 2)}; }});
  ops.push_back({"narrow", [](const auto& x, int64_t n) { return Batches{narrow(x, 1, 0, n - 1)}; }});
  ops.push_back({"topk of positions", [](const auto& x, int64_t n) { return pair_of(topk(x, n, 0)); }});
  ops.push_back({"pool", [](const auto& x, int64_t n) { return Batches{pool(x, n == 1 ? Pooling::first : Pooling::last)}; }});
  ops.push_back({"products of rows with a matrix each", [](const auto& x, int64_t n) {
                   const Tensor each = waves({4, 3, n}, x.device()), weight = waves({4, n, 3}, x.device());
                   return Batches{matmul(x, each), linear(x, weight), matmul(x, x, {.transpose_self = true}),
                                  matmul(x, x, {.transpose_other = true}), matmul(dense(each), waves({n, 5}, x.device()))};
                 }});
  ops.push_back({"over ragged and regular dims", [](const auto& x, int64_t n) {
                   return Batches{sum(x * static_cast<double>(n), {1, 2})};
                 }});
  return ops;
}

std::vector<Op> ops_of_matrices() {
  std::vector<Op> ops = ops_of_any_shape();
  ops.push_back({"transpose", [](const auto& x, int64_t n) { return Batches{transpose(x, n, n + 1)}; }});
  ops.push_back({"permute", [](const auto& x, int64_t n) {
                   return Batches{n == 1 ? permute(x, {0, 3, 2, 1}) : permute(x, {0, 2, 3, 1})};
                 }});
  ops.push_back({"products of matrices", [](const auto& x, int64_t n) {
                   const NestedTensor a = select(x, 3, 0), b = select(x, 3, 1);
                   return Batches{matmul(a, b, {.transpose_self = n == 1, .transpose_other = n == 2})};
                 }});
  ops.push_back({"diagonal", [](const auto& x, int64_t n) { return Batches{diagonal(x, n - 1, 1, 2)}; }});
  ops.push_back({"tril", [](const auto& x, int64_t n) { return Batches{tril(select(x, 3, 0), n - 2)}; }});
  ops.push_back({"triu", [](const auto& x, int64_t n) { return Batches{triu(select(x, 3, 0), n - 2)}; }});
  ops.push_back({"flatten", [](const auto& x, int64_t n) { return Batches{sum(flatten(x, 1, n + 1), {1})}; }});
  ops.push_back({"sum over one ragged dim", [](const auto& x, int64_t n) { return Batches{sum(x, {n}, true) + 1.0}; }});
  ops.push_back({"broadcasting", [](const auto& x, int64_t n) { return Batches{x - sum(x, {n}, true)}; }});
  ops.push_back(
      {"broadcasting along both", [](const auto& x, int64_t n) { return Batches{sum(x, {n}, true) - sum(x, {3 - n}, true)}; }});
  return ops;
}

void expect_equal(const Batches& got, const Batches& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].device(), kGpu);
    EXPECT_EQ(got[i].ragged(), expected[i].ragged());
    testing::expect_close(got[i].values(), expected[i].values(), 1e-5, 1e-5);
  }
}

/// For each op: both numbers, then both again without an upload.
void check_uploads(const std::vector<Op>& ops, const NestedTensor& x) {
  for (const Op& op : ops) {
    SCOPED_TRACE(op.name);
    const NestedTensor there =
        NestedTensor(x.values(),
                     Ragged(std::make_shared<const RaggedShape>(
                         std::vector<int64_t>(x.ragged()->sizes().begin(), x.ragged()->sizes().end()), x.ragged_dims())))
            .to(kGpu);
    const Batches expected[] = {op.call(x, 1), op.call(x, 2)};
    for (int run = 0; run < 2; ++run) {
      const int64_t before = uploads();
      const Batches got[] = {op.call(there, 1), op.call(there, 2)};
      if (run > 0) {
        EXPECT_EQ(uploads(), before);
      }
      for (int n = 0; n < 2; ++n) expect_equal(got[n], expected[n]);
    }
  }
}

TEST(CudaNestedRows, AreUploadedOnceForAShape) {
  NEEDS_GPU();
  check_uploads(ops_of_any_shape(), NestedTensor::from_lengths(randn({14, 3}), {5, 1, 0, 8}));
  check_uploads(ops_of_rows(), NestedTensor::from_lengths(randn({14, 3}), {5, 1, 2, 6}));
  const Ragged matrices(std::make_shared<const RaggedShape>(std::vector<int64_t>{2, 3, 4, 1, 3, 3, 1, 2}, 2));
  check_uploads(ops_of_matrices(), NestedTensor(randn({matrices->rows(), 3}), matrices));
}

TEST(CudaNestedRows, DerivativesUploadNoneEither) {
  NEEDS_GPU();
  const NestedTensor there = NestedTensor::from_lengths(randn({14, 3}), {5, 1, 0, 8}).to(kGpu);
  const Tensor leaf = there.values().requires_grad_();
  const auto step = [&] {
    const NestedTensor x(leaf, there.ragged());
    sum(prod(x, 1).values() + sum(cumprod(roll(x, 2, 1), 1), {1}).values() + std::get<0>(median(x, 1)).values().nan_to_num())
        .backward();
  };
  step();
  const int64_t before = uploads();
  step();
  EXPECT_EQ(uploads(), before);
}

TEST(CudaNestedRows, AGraphRecordsThemOnceTheyAreThere) {
  NEEDS_GPU();
  const NestedTensor x = NestedTensor::from_lengths(randn({14, 3}), {5, 1, 0, 8}).to(kGpu);
  Tensor y;
  const auto work = [&] { y = cat({roll(x, 1, 1), pad(x, IntSpan({0, 0, 1, 0}))}, 1).values() * 2.0; };
  testing::expect_error([&] { cuda::Graph(kGpu, work); }, "graph");
  work();
  const Tensor expected = y.clone();
  const cuda::Graph graph(kGpu, work);
  graph.replay();
  testing::expect_equal(y, expected);
}

TEST(CudaNestedRows, AGraphRecordsProductsAndTransposesOfMatrices) {
  NEEDS_GPU();
  const Ragged matrices(std::make_shared<const RaggedShape>(std::vector<int64_t>{2, 3, 70, 1, 0, 4, 3, 3}, 2));
  const Tensor leaf = randn({matrices->rows()}).to(kGpu).requires_grad_(), each = randn({4, 5, 3}).to(kGpu);
  const NestedTensor rows = NestedTensor::from_lengths(randn({9, 5}), {2, 0, 6, 1}).to(kGpu);
  Tensor y, gradient;
  const auto work = [&] {
    const NestedTensor x(leaf, matrices);
    y = sum(matmul(x, transpose(x, 1, 2)).values()) + sum(matmul(rows, each).values());
    gradient = grad(y, {leaf})[0];
  };
  work();
  const Tensor expected = y.clone(), expected_gradient = gradient.clone();
  const cuda::Graph graph(kGpu, work);
  graph.replay();
  testing::expect_equal(y, expected);
  testing::expect_equal(gradient, expected_gradient);
  const NestedTensor host(leaf.to(Device()), matrices);
  testing::expect_close(y, sum(matmul(host, transpose(host, 1, 2)).values()) + sum(matmul(rows, each).to(Device()).values()),
                        1e-4, 1e-4);
}

// What a shape keeps ends with it, also where shapes lead to each other, and more of it than it keeps is made anew.
TEST(CudaNestedRows, GoWithTheirShapes) {
  NEEDS_GPU();
  empty_cache(kGpu);
  const auto in_use = [] { return memory_stats(kGpu).in_use; };
  const int64_t before = in_use();
  {
    const NestedTensor x = NestedTensor::from_lengths(randn({14, 3}), {5, 1, 0, 8}).to(kGpu),
                       y = NestedTensor::from_lengths(randn({10, 3}), {1, 2, 3, 4}).to(kGpu);
    for (int i = 0; i < 3; ++i) cat({x, y}, 1), cat({y, x}, 1), cat({x, x}, 1);
    NestedTensor z = x;
    for (int i = 0; i < 200; ++i) z = pad(roll(z, 1, 1), IntSpan({0, 0, 1, 0}));
    EXPECT_EQ(z.ragged()->size(2), 200);
    for (int64_t n = 0; n < 100; ++n) {
      testing::expect_equal(roll(x, n, 1).values(), roll(x.to(Device()), n, 1).values());
    }
    EXPECT_GT(in_use(), before);
  }
  EXPECT_EQ(in_use(), before);
}

}  // namespace
}  // namespace deckle
