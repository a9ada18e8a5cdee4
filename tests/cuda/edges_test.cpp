// What is rare is on a GPU as it is on the CPU, or refused as it is there: dtypes, addresses, windows and sizes at their edges.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "deckle/core/cuda/counters.h"
#include "deckle/deckle.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"

namespace deckle {
namespace {

TEST(CudaEdges, ProductsOfIntegersAreModuloTheirRange) {
  NEEDS_GPU();
  for (const DType dtype : {DType::int64, DType::int32, DType::uint8}) {
    const int64_t most = dtype == DType::uint8 ? 256 : int64_t{1} << 31, least = dtype == DType::uint8 ? 0 : -most;
    for (const auto& [m, k, n] : {std::tuple<int64_t, int64_t, int64_t>{1, 1, 1},
                                  {3, 7, 5},
                                  {64, 64, 64},
                                  {65, 130, 67},
                                  {200, 17, 1},
                                  {0, 3, 2},
                                  {3, 0, 2}}) {
      SCOPED_TRACE(::testing::Message() << name(dtype) << " " << m << " " << k << " " << n);
      const Tensor a = randint(least, most, {m, k}).to(dtype), b = randint(least, most, {k, n}).to(dtype);
      const Tensor x = a.to(kGpu), y = b.to(kGpu), turned = b.t().contiguous().to(kGpu).t();
      const Tensor expected = mm(a, b);
      EXPECT_TRUE(all(mm(x, y).to(Device()) == expected).item<bool>());
      EXPECT_TRUE(all(mm(x, turned).to(Device()) == expected).item<bool>());
      EXPECT_TRUE(all(matmul(x, y).to(Device()) == expected).item<bool>());
    }
  }
  const Tensor whole = ones({2, 2, 2}, DType::int64);
  testing::expect_error([&] { bmm(whole.to(kGpu), whole.to(kGpu)); }, "bmm: self is int64");
}

/// Beyond 2^20 matrices a batch is several calls of cuBLASLt, which counts them in 32 bits.
TEST(CudaEdges, ProductsOfMoreMatricesThanOneCallTakes) {
  NEEDS_GPU();
  constexpr int64_t kCount = (1 << 20) + 3;
  const Tensor a = randint(-8, 8, {kCount, 3, 2}).to(DType::float32).to(kGpu);
  const Tensor b = randint(-8, 8, {kCount, 2, 1}).to(DType::float32).to(kGpu);
  const Tensor expected = deckle::sum(a * transpose(b, 1, 2), -1, true);
  testing::expect_equal(bmm(a, b), expected);
  testing::expect_equal(bmm(transpose(a, 1, 2).contiguous().transpose(1, 2), b), expected);
  const Tensor apart = randint(-8, 8, {kCount, 3, 4}).to(DType::float32).to(kGpu);  // neither rows nor columns are contiguous
  const Tensor every = slice(apart, 2, 0, 4, 2);
  testing::expect_equal(bmm(every, b), deckle::sum(every * transpose(b, 1, 2), -1, true));
  testing::expect_equal(bmm(a, expand(slice(b, 0, 0, 1), {kCount, 2, 1})),
                        deckle::sum(a * transpose(slice(b, 0, 0, 1), 1, 2), -1, true));
}

TEST(CudaEdges, ConversionsToIntegersSaturate) {
  NEEDS_GPU();
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor values = tensor({0.0,
                                -0.0,
                                0.9,
                                -0.9,
                                1.5,
                                -1.5,
                                255.0,
                                255.9,
                                256.0,
                                300.0,
                                -5.0,
                                65504.0,
                                2147483647.0,
                                2147483648.0,
                                -2147483648.0,
                                -2147483649.0,
                                4294967297.0,
                                9.2e18,
                                9223372036854775808.0,
                                -1e19,
                                1e30,
                                inf,
                                -inf,
                                std::nan("")})
                            .view({4, 6});
  const DType all[] = {DType::float64, DType::float32, DType::bfloat16, DType::float16,
                       DType::int64,   DType::int32,   DType::uint8,    DType::bool_};
  for (const DType from : all) {
    const Tensor x = values.to(from);
    for (const DType to : all) {
      SCOPED_TRACE(std::string(name(from)) + " to " + std::string(name(to)));
      testing::expect_equal(x.to(kGpu).to(to), x.to(to));
      testing::expect_equal(x.to(kGpu).t().to(to), x.t().to(to));
    }
  }
}

TEST(CudaEdges, TangentsOnAnotherDeviceAreRefused) {
  NEEDS_GPU();
  const Tensor x = ones({2}).to(kGpu);
  testing::expect_error([&] { jvp([](const Tensor& t) { return t + 1; }, x, ones({2})); },
                        "a tangent on cpu for a tensor on cuda:0");
  testing::expect_error([] { cuda::counters(Device()); }, "cpu asked of a machine with");
}

TEST(CudaEdges, IndicesOfOtherDtypesAreRefused) {
  NEEDS_GPU();
  const Tensor weight = ones({5, 3}, DType::float32, kGpu), x = ones({4, 3}, DType::float32, kGpu);
  for (const DType dtype : {DType::float64, DType::float32, DType::bfloat16, DType::uint8}) {
    SCOPED_TRACE(name(dtype));
    const std::string refused = "indices are " + std::string(name(dtype)) + " (expected int64 or int32)";
    const Tensor row = zeros({4}, dtype, kGpu), all = zeros({4, 3}, dtype, kGpu);
    testing::expect_error([&] { embedding(weight, row); }, refused);
    testing::expect_error([&] { index_select(weight, 0, row); }, refused);
    testing::expect_error([&] { index_add(weight, 0, row, x); }, refused);
    testing::expect_error([&] { one_hot(row, 5); }, refused);
    testing::expect_error([&] { gather(weight, 0, all); }, refused);
    testing::expect_error([&] { scatter_add(weight, 0, all, x); }, refused);
  }
  synchronize(kGpu);
  EXPECT_EQ(embedding(weight, zeros({4}, DType::int32, kGpu)).numel(), 12);
}

TEST(CudaEdges, WindowsAndPlacesWithoutRowsAreRefused) {
  NEEDS_GPU();
  const auto lengths = [](std::vector<int64_t> of) { return Ragged::from_lengths(of); };
  for (const Device device : {Device(), kGpu}) {
    const Tensor four = ones({4, 2}, DType::float32, device);
    const char* const no_row = "a window has no row of its sequence of length 4 (expected one or more)";
    testing::expect_error([&] { segment_max_pool1d(four, lengths({4}), lengths({5}), 3, 2, 1); }, no_row);
    testing::expect_error([&] { segment_max_pool1d(four, lengths({4}), lengths({1}), 2, 1, 2); }, no_row);
    testing::expect_error(
        [&] {
          segment_max_pool1d(four, lengths({4, 0}), lengths({1, 1}), 3, 2, 1);
        },
        "a window has no row of its sequence of length 0");
    EXPECT_EQ(std::get<0>(segment_max_pool1d(four, lengths({4, 0}), lengths({3, 0}), 3, 2, 1)).size(0), 3);
    testing::expect_error(
        [&] {
          segment_resample(four, lengths({4, 0}), lengths({4, 1}), 1.0, false);
        },
        "sequence 1 is empty (expected none of its rows in the result)");
    EXPECT_EQ(segment_resample(four, lengths({4, 0}), lengths({6, 0}), 1.5, false).size(0), 6);
  }
  synchronize(kGpu);
}

TEST(CudaEdges, ABiasMayLieAtAnyAddress) {
  NEEDS_GPU();
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16}) {
    SCOPED_TRACE(name(dtype));
    const double bound = dtype == DType::float32 ? 1e-4 : 0.25;
    for (const int64_t out : {65, 96, 200}) {
      const Tensor x = randn({70, 40}).to(dtype), w = randn({out, 40}).to(dtype), b = randn({out + 9}).to(dtype);
      for (const int64_t first : {0, 1, 3, 8}) {
        const Tensor on_gpu = linear(x.to(kGpu), w.to(kGpu), b.to(kGpu).slice(0, first, first + out));
        testing::expect_close(on_gpu, linear(x, w, b.slice(0, first, first + out)), bound, 0.02);
      }
    }
    const Tensor x = randn({2, 80, 9}).to(dtype), w = randn({27, 3, 3}).to(dtype), b = randn({27}).to(dtype);
    const Conv1dOptions options{.groups = 3};
    testing::expect_close(conv1d(x.to(kGpu), w.to(kGpu), b.to(kGpu), options), conv1d(x, w, b, options), bound, 0.02);
  }
  synchronize(kGpu);
}

TEST(CudaEdges, RowsThatAreAddedToOftenHaveTheCpusSums) {
  NEEDS_GPU();
  for (const int64_t count : {513, 1024, 1300, 20'000}) {
    const Tensor some = randint(0, 5, {count}), often = masked_fill(some, rand({count}) < 0.7, 3);
    for (const Tensor& index : {often, some, zeros({count}, DType::int64), full({count}, 4, DType::int64)}) {
      for (const int64_t inner : {1, 5, 200}) {
        SCOPED_TRACE(::testing::Message() << count << " " << inner);
        const Tensor self = randn({6, inner}), source = randn({count, inner});
        const Tensor got = index_add(self.to(kGpu), 0, index.to(kGpu), source.to(kGpu));
        testing::expect_close(got, index_add(self, 0, index, source), 1e-4, 1e-5);
        testing::expect_equal(index_add(self.to(kGpu), 0, index.to(kGpu), source.to(kGpu)), got.to(Device()));
        const Tensor turned = source.t().contiguous();  // along the last dim, of `inner` rows
        testing::expect_close(index_add(self.t().contiguous().to(kGpu), 1, index.to(kGpu), turned.to(kGpu)),
                              index_add(self.t().contiguous(), 1, index, turned), 1e-4, 1e-5);
        const Tensor wide = expand(unsqueeze(index, 1), {count, inner}).contiguous();
        testing::expect_close(scatter_add(self.to(kGpu), 0, wide.to(kGpu), source.to(kGpu)), scatter_add(self, 0, wide, source),
                              1e-4, 1e-5);
        const Tensor whole = randint(-1000, 1000, {count, inner}), none = zeros({6, inner}, DType::int64);
        testing::expect_equal(index_add(none.to(kGpu), 0, index.to(kGpu), whole.to(kGpu)), index_add(none, 0, index, whole));
        testing::expect_equal(scatter_add(none.to(kGpu), 0, wide.to(kGpu), whole.to(kGpu)), scatter_add(none, 0, wide, whole));
      }
    }
  }
}

TEST(CudaEdges, ManyColumnsTapsAndHeads) {
  NEEDS_CUDA_KERNELS();
  const std::vector<int64_t> lengths = {1, 0, 2};
  const Ragged ragged = Ragged::from_lengths(lengths);
  const Tensor wide = randn({3, 2'200'001});  // 32 a block: more than 65,535
  testing::expect_close(segment_sum(wide.to(kGpu), ragged), segment_sum(wide, ragged), 1e-6, 1e-6);
  testing::expect_close(segment_softmax(wide.to(kGpu), ragged), segment_softmax(wide, ragged), 1e-6, 1e-5);
  const Tensor x = randn({1, 66'010, 2}), w = randn({2, 1, 66'000}).requires_grad_();
  const Tensor y = w.detach().to(kGpu).requires_grad_();
  conv1d(x, w, {}, {.groups = 2}).sum().backward();
  conv1d(x.to(kGpu), y, {}, {.groups = 2}).sum().backward();
  testing::expect_close(y.grad(), w.grad(), 1e-3, 1e-4);
  const Tensor q = randn({1, 2, 66'000, 8}), k = randn({1, 3, 66'000, 8});  // [B, rows, heads, D]
  const auto gradients = [&](Device device) {
    Tensor a = q.to(DType::float64).to(device).requires_grad_(), b = k.to(DType::float64).to(device).requires_grad_();
    const Tensor out = attention(a, b, b);
    (out * out).sum().backward();
    return std::vector<Tensor>{out.detach(), a.grad(), b.grad()};
  };
  const std::vector<Tensor> got = gradients(kGpu), expected = gradients(Device());
  for (size_t i = 0; i < got.size(); ++i) testing::expect_close(got[i], expected[i], 1e-9, 1e-9);
}

}  // namespace
}  // namespace deckle
