// A tensor on a GPU: where it is, what may be done with it, and what is refused.
#include <cmath>
#include <cstdio>

#include <fmt/format.h>

#include "deckle/core/allocator.h"
#include "deckle/core/cuda/graph.h"
#include "deckle/core/from_data.h"
#include "deckle/deckle.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"
#include "tests/support/temporary_folder.h"

namespace deckle {
namespace {

TEST(CudaTensor, GoesThereAndBack) {
  NEEDS_GPU();
  const Tensor x = randn({5, 7}, {.dtype = DType::float64}), y = x.to(kGpu);
  EXPECT_EQ(y.device(), kGpu);
  EXPECT_TRUE(y.to(kGpu).is_same(y));
  testing::expect_equal(y, x);
  testing::expect_equal(y.to(Device()), x);
  testing::expect_equal(x.t().to(kGpu), x.t());
  testing::expect_equal(y.t(), x.t());
}

TEST(CudaTensor, LargeOnesGoThroughPinnedPieces) {
  NEEDS_GPU();
  const Tensor x = randint(-1000, 1000, {(int64_t{13} << 20) + 3});
  const Tensor y = x.to(kGpu);
  const Tensor back = (y + 1).to(Device());
  EXPECT_EQ(sum(abs(back - x - 1)).item<int64_t>(), 0);
}

TEST(CudaTensor, NumbersAreAssignedThroughMasksAndIndices) {
  NEEDS_GPU();
  const Tensor host = randn({7}, {.dtype = DType::float64}), x = host.clone().to(kGpu);
  for (const Tensor& t : {host, x}) {
    t[t > 0] = 0.25;
    t[tensor({6, 0}).to(t.device())] = 2.0;
  }
  testing::expect_equal(x, host);
}

TEST(CudaTensor, IndicesOfTheHostAreCopied) {
  NEEDS_GPU();
  const Tensor host = randn({7, 4}, {.dtype = DType::float64}), x = host.to(kGpu);
  const Tensor rows = tensor<int64_t>({6, 0, 3}), columns = tensor({1, 1, 2});
  testing::expect_equal(x[rows], host[rows]);
  testing::expect_equal(x.index({rows, columns.to(kGpu)}), host.index({rows, columns}));
  testing::expect_equal(x.index({Slice(1, 6), columns}), host.index({Slice(1, 6), columns}));
  for (const Tensor& t : {host, x}) {
    t[rows] = 2.0;
    t.index_put_({rows, columns}, ones({3}, DType::float64, t.device()), true);
  }
  testing::expect_equal(x, host);
  testing::expect_error([&] { cuda::Graph(kGpu, [&] { x[rows]; }); }, "cannot have an upload");
}

TEST(CudaTensor, ListsAndGradientsOfTwoDevicesAreRefused) {
  NEEDS_GPU();
  const Tensor there = ones({3}).to(kGpu), here = ones({3}), v = there.clone().requires_grad_();
  testing::expect_error([&] { foreach_add_({there}, {here}); },
                        "foreach_add_: operands on cuda:0 and cpu (expected one device: x.to(Device::cuda(0)))");
  testing::expect_error([&] { foreach_sgd_({there}, {here}, 0.1, 0); }, "operands on cuda:0 and cpu");
  testing::expect_error([&] { foreach_dot({there}, {here}); }, "operands on cuda:0 and cpu");
  // Those that write copies, below autograd.
  const std::string refused = "operands on cuda:0 and cpu (expected one device";
  testing::expect_error([&] { foreach_add({there}, {here}, 1); }, refused);
  testing::expect_error([&] { foreach_add({there, here}, {there, here}, 1); }, refused);
  testing::expect_error([&] { foreach_mul({there}, {here}); }, refused);
  testing::expect_error([&] { foreach_addcmul({there}, {there}, {here}, 1); }, refused);
  testing::expect_error([&] { foreach_addcdiv({there}, {here}, {there}, 1); }, refused);
  testing::expect_error([&] { foreach_scale({there, here}, 2); }, refused);
  testing::expect_error([&] { foreach_sqrt({there, here}); }, refused);
  testing::expect_error([&] { v.set_grad(here); },
                        "set_grad: a gradient on cpu for a tensor on cuda:0 (expected the same device)");
  testing::expect_error([&] { (v * 2).backward(here); }, "a gradient on cpu for an output on cuda:0 (expected the same device)");
}

TEST(CudaTensor, TheHostCannotReadItsMemory) {
  NEEDS_GPU();
  const Tensor x = zeros({3}).to(kGpu);
  testing::expect_error([&] { x.data<float>(); }, "the tensor is on cuda:0, whose memory the host cannot read (expected");
}

TEST(CudaTensor, PrintsItsValuesAndWhereItIs) {
  NEEDS_GPU();
  EXPECT_EQ(to_string(tensor({1.0f, 2.5f}).to(kGpu)), "Tensor[2] float32 cuda:0\n[1, 2.5]");
  EXPECT_EQ(tensor({3.0f}).to(kGpu).item(), 3);
}

TEST(CudaTensor, OperandsOnTwoDevicesAreRefused) {
  NEEDS_GPU();
  const Tensor x = ones({3}), y = x.to(kGpu);
  testing::expect_error([&] { x + y; }, "add: operands on cpu and cuda:0 (expected one device: x.to(Device::cuda(0)))");
  testing::expect_error([&] { mm(ones({2, 2}), ones({2, 2}).to(kGpu)); }, "mm: operands on cpu and cuda:0 (expected");
}

TEST(CudaTensor, AResultOnAnotherDeviceIsRefused) {
  NEEDS_GPU();
  const Tensor x = ones({3}), y = x.to(kGpu);
  testing::expect_error([&] { silu_out(x, y); }, "silu_out: operands on cpu and cuda:0 (expected one device");
  testing::expect_error([&] { silu_out(y, x); }, "silu_out: operands on cuda:0 and cpu (expected one device");
  testing::expect_error([&] { add_out(y, x, x); }, "add_out: operands on cuda:0 and cpu");
  const Tensor whole = tensor<int64_t>({1, 2});  // which floor leaves as they are
  testing::expect_error([&] { floor_out(whole.to(kGpu), whole); }, "floor_out: operands on cuda:0 and cpu");
  testing::expect_equal(x, ones({3}));
  testing::expect_equal(y, ones({3}));
  testing::expect_equal(silu_out(empty({3}, DType::float32, kGpu), y), silu(y));
}

TEST(CudaTensor, OperandsOfFusedOpsOnTwoDevicesAreRefused) {
  NEEDS_GPU();
  const Tensor here = ones({2, 3}), there = here.to(kGpu), row = ones({3}), row_there = row.to(kGpu);
  const std::string refused = "operands on cuda:0 and cpu (expected one device";
  testing::expect_error([&] { add_layer_norm(there, here, {}, {}, {}, 1e-5); }, "add_layer_norm: " + refused);
  testing::expect_error([&] { add_layer_norm(there, there, row, {}, {}, 1e-5); }, refused);
  testing::expect_error([&] { add_layer_norm(there, there, {}, row, {}, 1e-5); }, refused);
  testing::expect_error([&] { add_layer_norm(there, there, row_there, row_there, row, 1e-5); }, refused);
  testing::expect_error([&] { add_layer_norm_backward(there, here, there, {}, 1e-5); }, refused);
  testing::expect_error([&] { add_layer_norm_backward(there, there, there, row, 1e-5); }, refused);
  testing::expect_error([&] { bias_gelu(there, row); }, "bias_gelu: " + refused);
  testing::expect_error([&] { bias_gelu_backward(there, there, row); }, refused);
}

TEST(CudaTensor, FactoriesTakeADevice) {
  NEEDS_GPU();
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::float16, DType::int64, DType::int32,
                            DType::uint8, DType::bool_}) {
    SCOPED_TRACE(name(dtype));
    testing::expect_equal(zeros({3, 2}, dtype, kGpu), zeros({3, 2}, dtype));
    testing::expect_equal(ones({3, 2}, dtype, kGpu), ones({3, 2}, dtype));
    testing::expect_equal(full({9}, 1, dtype, kGpu), full({9}, 1, dtype));
    EXPECT_EQ(zeros({3}, dtype, kGpu).device(), kGpu);
  }
  EXPECT_EQ(zeros({3}).device(), Device());
}

TEST(CudaTensor, CopiesBetweenAllDtypesAsTheCpu) {
  NEEDS_GPU();
  const Tensor values = tensor({0.0, 1.0, -2.5, 3.75, 100.0, 0.1, -7.0, 255.0, 1e-3}).view({3, 3});
  for (const DType from : {DType::float64, DType::float32, DType::bfloat16, DType::float16, DType::int64, DType::int32}) {
    for (const DType to :
         {DType::float64, DType::float32, DType::bfloat16, DType::float16, DType::int64, DType::int32, DType::bool_}) {
      SCOPED_TRACE(std::string(name(from)) + " to " + std::string(name(to)));
      const Tensor x = values.to(from);
      testing::expect_equal(x.to(kGpu).to(to), x.to(to));
      testing::expect_equal(x.to(kGpu).t().to(to), x.t().to(to));
    }
  }
}

/// Next to a tie of the halves, further from it than float32 has bits for.
TEST(CudaTensor, HalvesAreRoundedOnceAsOnTheCpu) {
  NEEDS_GPU();
  const int64_t tie = (int64_t{1} << 60) + (int64_t{1} << 52), few = (int64_t{1} << 11) + 1;
  const Tensor integers = tensor({tie, tie + 1, tie - 1, -tie - 1, -tie + 1, few, INT64_MAX, INT64_MIN + 1, int64_t{65519}});
  const Tensor doubles = tensor({1 + 0x1p-8 + 0x1p-40, 1 + 0x1p-11 + 0x1p-40, -1 - 0x1p-11 - 0x1p-40, 1e300, 0x1p-134 + 0x1p-170,
                                 65519.999999, 1 + 3 * 0x1p-8 - 0x1p-40, 0.0, -0.0});
  for (const DType to : {DType::bfloat16, DType::float16}) {
    for (const Tensor& x : {integers, doubles}) {
      testing::expect_equal(x.to(kGpu).to(to), x.to(to));
      testing::expect_equal(x.to(kGpu).view({3, 3}).t().to(to), x.view({3, 3}).t().to(to));
    }
    for (const double value : doubles.to_vector()) testing::expect_equal(full({9}, value, to, kGpu), full({9}, value, to));
  }
}

TEST(CudaTensor, DoubleSumsOfHalvesAreRoundedOnce) {
  NEEDS_CUDA_KERNELS();
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    SCOPED_TRACE(name(dtype));
    const double half = dtype == DType::bfloat16 ? 0x1p-8 : 0x1p-11, tiny = dtype == DType::bfloat16 ? 0x1p-40 : 0x1p-24;
    // Above the middle of 1 and the next half, by less than a float of that size tells.
    const Tensor x = tensor(std::vector<double>{1, half, tiny}).to(dtype).to(kGpu);
    const Tensor got = index_add(zeros({1}, dtype, kGpu), 0, zeros({3}, DType::int64, kGpu), x);
    EXPECT_EQ(got.item(), 1 + 2 * half);
  }
}

TEST(CudaTensor, BroadcastsAndStridesAsTheCpu) {
  NEEDS_GPU();
  const Tensor x = randn({33, 1, 40}), y = randn({7, 1}), z = randn({40}), w = randn({40, 7, 33}).transpose(0, 2);
  const auto f = [](const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d) { return (a * b + c) * d - 2.5; };
  testing::expect_close(f(x.to(kGpu), y.to(kGpu), z.to(kGpu), w.to(kGpu)), f(x, y, z, w), 1e-6, 1e-6);
  const Tensor wide = randn({300, 1000}), bias = randn({1000});
  testing::expect_equal(wide.to(kGpu) + bias.to(kGpu), wide + bias);
  testing::expect_equal(wide.slice(1, 3, 900).to(kGpu) + bias.slice(0, 3, 900).to(kGpu), (wide + bias).slice(1, 3, 900));
  for (const int64_t count : {1, 2, 3, 4, 5, 7, 255, 2048, 2050, 5000}) {  // vectors of 16 bytes, and what is left behind them
    const Tensor p = randn({count}), q = randn({count}), rows = randn({count, 12}), row = randn({12});
    testing::expect_equal(p.to(kGpu) + q.to(kGpu), p + q);
    testing::expect_equal(p.to(kGpu) * 2.5, p * 2.5);
    testing::expect_equal(rows.to(kGpu) + row.to(kGpu), rows + row);
  }
}

TEST(CudaTensor, FilesHoldWhatTheCpuWrites) {
  NEEDS_GPU();
  const TemporaryFolder folder;
  const Tensor x = randn({4, 3});
  io::save({{"x", x.to(kGpu)}, {"t", x.to(kGpu).t()}}, folder / "x");
  const io::TensorMap read = io::load(folder / "x");
  testing::expect_equal(read.at("x"), x);
  testing::expect_equal(read.at("t"), x.t());
}

TEST(CudaTensor, AModuleMovesWithItsSharedParameters) {
  NEEDS_GPU();
  nn::Sequential net(nn::Linear(4, 8), nn::ReLU(), nn::Linear(8, 2));
  const Tensor x = randn({5, 4}), expected = net(x);
  net.to(kGpu);
  for (const Tensor& parameter : net.parameters()) {
    EXPECT_EQ(parameter.device(), kGpu);
    EXPECT_TRUE(parameter.requires_grad());
  }
  testing::expect_close(net(x.to(kGpu)), expected, 1e-6, 1e-6);
  net.load_state(nn::Sequential(nn::Linear(4, 8), nn::ReLU(), nn::Linear(8, 2)).state());
  net.to(Device());
  EXPECT_EQ(net(x).device(), Device());
}

TEST(CudaTensor, AnIndexIntoNothingIsRefusedAtOnce) {
  NEEDS_CUDA_KERNELS();
  const Tensor nothing = zeros({0, 3}, DType::float32, kGpu), index = zeros({2, 3}, DType::int64, kGpu);
  const Tensor source = ones({2, 3}, DType::float32, kGpu);
  const char* const refused = "dim 0 of what it chooses from has none (expected an index without elements)";
  testing::expect_error([&] { gather(nothing, 0, index); }, refused);
  const char* const no_shape = "index has shape [2, 3] for self [0, 3] (expected none, for dim 0 is empty)";
  testing::expect_error([&] { scatter(nothing, 0, index, source); }, no_shape);
  testing::expect_error([&] { scatter_add(nothing, 0, index, source); }, no_shape);
  const Tensor rows = ones({2, 3}, DType::float32, kGpu);
  const Ragged of_rows = Ragged::from_lengths(std::vector<int64_t>{2, 0}),
               of_index = Ragged::from_lengths(std::vector<int64_t>{1, 1});
  const char* const empty_one = "component 1 has no rows, and an index of 1 (expected an empty one)";
  testing::expect_error([&] { segment_gather(rows, of_rows, index, of_index); }, empty_one);
  testing::expect_error([&] { segment_scatter_add(rows, of_rows, index, of_index, source); }, empty_one);
  synchronize(kGpu);  // and the device goes on
  EXPECT_EQ(gather(nothing, 0, zeros({0, 3}, DType::int64, kGpu)).numel(), 0);
}

TEST(CudaTensor, AnIndexOutOfRangeIsReportedWhenTheDeviceIsWaitedFor) {
  NEEDS_CUDA_KERNELS();
  const Tensor weight = randn({7, 4}).to(kGpu), good = tensor<int64_t>({0, 6}).to(kGpu), bad = tensor<int64_t>({0, 7}).to(kGpu);
  embedding(weight, good);
  synchronize(kGpu);
  embedding(weight, bad);
  testing::expect_error([] { synchronize(kGpu); }, "an op before this on cuda:0 was given the index 7 (expected 0 to 6)");
  synchronize(kGpu);  // it is told once
}

TEST(CudaTensor, WhatIsNoProbabilityIsReportedWhenTheDeviceIsWaitedFor) {
  NEEDS_CUDA_KERNELS();
  for (const double wrong : {1.5, -0.25, std::nan("")}) {
    bernoulli(tensor({0.0, 1.0, wrong}).to(kGpu));
    testing::expect_error([] { synchronize(kGpu); }, fmt::format("element 2 of an op before this on cuda:0 is {} (expected a "
                                                                 "probability, 0 to 1)",
                                                                 wrong));
  }
  bernoulli(tensor({0.0, 1.0}).to(kGpu));
  synchronize(kGpu);
}

/// Of thousands of wrong elements one is told, with its own number; of two ops the first.
TEST(CudaTensor, AReportIsOfOneElementAndOfTheFirstOp) {
  NEEDS_CUDA_KERNELS();
  const Tensor places = arange(0, 1 << 20, 1, DType::float64).to(kGpu), weight = randn({7, 4}).to(kGpu);
  for (int i = 0; i < 10; ++i) {
    bernoulli(places + 2);
    embedding(weight, tensor<int64_t>({0, 7}).to(kGpu));
    int64_t element = -1;
    double value = -1;
    try {
      synchronize(kGpu);
    } catch (const Error& error) {
      long long read = -1;
      std::sscanf(error.message().c_str(), "element %lld of an op before this on cuda:0 is %lf", &read, &value);
      element = read;
    }
    EXPECT_GE(element, 0);
    EXPECT_EQ(value, static_cast<double>(element) + 2);
    synchronize(kGpu);  // it is told once
  }
}

TEST(CudaTensor, RandomNumbersHaveTheCpusBits) {
  NEEDS_GPU();
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::float16}) {
    SCOPED_TRACE(name(dtype));
    Generator a(7), b(7);
    testing::expect_equal(rand({1001}, {.dtype = dtype, .generator = &a}, kGpu), rand({1001}, {.dtype = dtype, .generator = &b}));
    testing::expect_close(randn({1001}, {.dtype = dtype, .generator = &a}, kGpu),
                          randn({1001}, {.dtype = dtype, .generator = &b}), dtype == DType::float64 ? 1e-14 : 1e-2, 1e-2);
    EXPECT_EQ(a.offset(), b.offset());
  }
}

TEST(CudaTensor, LongSumsAreTheSameInEveryRun) {
  NEEDS_GPU();
  const Tensor x = randn({3000, 1000}), y = x.to(kGpu);
  for (const std::vector<int64_t>& dims : {std::vector<int64_t>{0, 1}, std::vector<int64_t>{0}, std::vector<int64_t>{1}}) {
    const Tensor first = sum(y, Ints(dims));
    testing::expect_equal(sum(y, Ints(dims)), first);
    testing::expect_close(first, sum(x, Ints(dims)), 1e-3, 1e-5);
    testing::expect_equal(amax(y, Ints(dims)), amax(x, Ints(dims)));
  }
  testing::expect_equal(argmax(y, 1), argmax(x, 1));
  testing::expect_equal(argmax(y), argmax(x));
}

TEST(CudaTensor, GradientsFlowThroughTheMove) {
  NEEDS_GPU();
  const Tensor x = randn({4, 3}, {.dtype = DType::float64}).requires_grad_();
  const Tensor y = x.to(kGpu);
  y.backward(ones({4, 3}, DType::float64, kGpu) * 3);
  EXPECT_EQ(x.grad().device(), Device());
  testing::expect_equal(x.grad(), full({4, 3}, 3, DType::float64));
}

}  // namespace
}  // namespace deckle
