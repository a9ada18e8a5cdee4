#include "deckle/kernels/cpu/matmul/product.h"

#include <gtest/gtest.h>

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <tuple>
#include <type_traits>
#include <vector>

#include "deckle/base/cpu_cap.h"
#include "deckle/base/parallel.h"
#include "deckle/kernels/args/context.h"
#include "tests/kernels/cpu/support/buffer.h"
#include "tests/kernels/cpu/support/refuse_tiles.h"
#include "tests/kernels/cpu/support/threads.h"

extern "C" {
int dnnl_get_effective_cpu_isa();
char* openblas_get_corename();
__attribute__((weak)) void gotoblas_dynamic_init();  // a build for a single core type lacks it
}

namespace deckle::kernels::cpu {
void mm(const Context&, const View& self, const View& mat2, const View& result);
void bmm(const Context&, const View& self, const View& mat2, const View& result);
void linear(const Context&, const View& input, const View& weight, const View& bias, const View& result);
void linear_weight_backward(const Context&, const View& grad, const View& input, const View& result);
}  // namespace deckle::kernels::cpu

namespace deckle {
namespace {

using testing::Buffer;
using testing::expect_close;
using testing::poisoned;
using testing::random_normal;
using testing::values;

constexpr DType kFloating[] = {DType::float16, DType::bfloat16, DType::float32, DType::float64};

// Sums of K products of standard normals have size about sqrt(K); operands are exact in every dtype. The sums on the way are as
// large, so K roundings of them add up to about eps K.
double tolerance(DType dtype, int64_t k) {
  const double root = std::sqrt(static_cast<double>(k) + 1);
  switch (dtype) {
    case DType::float64:
      return 1e-14 * root + 3e-16 * static_cast<double>(k);
    case DType::float32:
      return 2e-6 * root + 6e-8 * static_cast<double>(k);
    case DType::float16:
      return 1e-3 + 2e-6 * root;
    default:
      return 8e-3 + 2e-6 * root;
  }
}

std::vector<double> naive(const View& a, const View& b) {
  const std::vector<double> x = values(a), y = values(b);
  const int64_t m = a.sizes[0], k = a.sizes[1], n = b.sizes[1];
  std::vector<double> c(static_cast<size_t>(m * n), 0.0);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t p = 0; p < k; ++p)
      for (int64_t j = 0; j < n; ++j)
        c[static_cast<size_t>(i * n + j)] += x[static_cast<size_t>(i * k + p)] * y[static_cast<size_t>(p * n + j)];
  return c;
}

struct Shape {
  int64_t m, n, k;
};

class EveryDType : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Floating, EveryDType, ::testing::ValuesIn(kFloating),
                         [](const auto& info) { return std::string(name(info.param)); });

Buffer operand(int64_t rows, int64_t cols, DType dtype, int layout) {
  switch (layout) {
    case 0:
      return random_normal({rows, cols}, dtype);
    case 1:
      return random_normal({cols, rows}, dtype).transposed(0, 1);
    case 2: {  // neither stride is 1
      Buffer buffer = random_normal({rows, cols, 3}, dtype);
      buffer.view.ndim = 2;
      return buffer;
    }
    default: {  // one row, broadcast
      Buffer buffer = random_normal({1, cols}, dtype);
      buffer.view.sizes[0] = rows;
      buffer.view.strides[0] = 0;
      return buffer;
    }
  }
}

TEST_P(EveryDType, MmEqualsTheNaiveProductInEveryLayout) {
  for (const Shape& shape : {Shape{1, 1, 1}, Shape{5, 3, 7}, Shape{67, 1, 130}, Shape{1, 65, 33}, Shape{130, 70, 64},
                             Shape{577, 33, 19}, Shape{9, 17, 1111}}) {
    for (int left = 0; left < 4; ++left) {
      for (int right = 0; right < 4; ++right) {
        const Buffer a = operand(shape.m, shape.k, GetParam(), left), b = operand(shape.k, shape.n, GetParam(), right);
        const Buffer c = poisoned({shape.m, shape.n}, GetParam());
        kernels::cpu::mm({}, a.view, b.view, c.view);
        SCOPED_TRACE(fmt::format("m {} n {} k {} layouts {} {}", shape.m, shape.n, shape.k, left, right));
        expect_close(c.view, naive(a.view, b.view), tolerance(GetParam(), shape.k));
        if (HasFatalFailure()) return;
      }
    }
  }
}

// What direct.cpp and thin.cpp take, and blocked_product.cpp where it reads a factor as it lies: a vector on one side, with k in
// one chunk and in several, few multiplications in all, a short k, and few rows or columns.
TEST_P(EveryDType, VectorsAndSmallMatricesInEveryLayout) {
  for (const Shape& shape :
       {Shape{1, 900, 70},   Shape{900, 1, 70},  Shape{1, 33, 5003}, Shape{77, 1, 2050}, Shape{1, 1, 4100},   Shape{1100, 1, 300},
        Shape{1, 1100, 300}, Shape{120, 1, 130}, Shape{8, 8, 8},     Shape{3, 130, 17},  Shape{31, 5, 64},    Shape{700, 90, 1},
        Shape{130, 257, 3},  Shape{9, 1100, 2},  Shape{70, 16, 300}, Shape{16, 70, 300}, Shape{200, 9, 1100}, Shape{11, 500, 257},
        Shape{4, 65, 600},   Shape{7, 90, 2200}, Shape{90, 7, 2200}}) {
    for (int left = 0; left < 4; ++left) {
      for (int right = 0; right < 4; ++right) {
        const Buffer a = operand(shape.m, shape.k, GetParam(), left), b = operand(shape.k, shape.n, GetParam(), right);
        SCOPED_TRACE(fmt::format("m {} n {} k {} layouts {} {}", shape.m, shape.n, shape.k, left, right));
        const std::vector<double> want = naive(a.view, b.view);
        testing::expect_same_for_thread_counts([&] {
          Buffer c = poisoned({shape.m, shape.n}, GetParam());
          kernels::cpu::mm({}, a.view, b.view, c.view);
          expect_close(c.view, want, tolerance(GetParam(), shape.k));
          return testing::bytes(c);
        });
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(EveryDType, SmallLinearAddsTheBias) {
  for (const auto& [rows, cols, k] : {std::tuple(1, 30, 64), std::tuple(2, 30, 64), std::tuple(9, 30, 64), std::tuple(9, 70, 300),
                                      std::tuple(80, 12, 64), std::tuple(1, 90, 2100), std::tuple(40, 30, 3)}) {
    const Buffer x = random_normal({rows, k}, GetParam()), w = random_normal({cols, k}, GetParam());
    Buffer bias = random_normal({cols, 3}, GetParam());
    bias.view.ndim = 1;  // stride 3
    View weight = w.view;
    std::swap(weight.sizes[0], weight.sizes[1]);
    std::swap(weight.strides[0], weight.strides[1]);
    std::vector<double> want = naive(x.view, weight);
    const std::vector<double> added = values(bias.view);
    for (size_t i = 0; i < want.size(); ++i) want[i] += added[i % static_cast<size_t>(cols)];
    const Buffer result = poisoned({rows, cols}, GetParam());
    kernels::cpu::linear({}, x.view, w.view, bias.view, result.view);
    SCOPED_TRACE(fmt::format("rows {} cols {} k {}", rows, cols, k));
    expect_close(result.view, want, tolerance(GetParam(), k));
  }
}

template <typename X>
void expect_exact_products(const Shape& shape, int left, int right) {
  using Word = std::make_unsigned_t<X>;
  const Buffer a = operand(shape.m, shape.k, dtype_of<X>, left), b = operand(shape.k, shape.n, dtype_of<X>, right);
  for (const View& view : {a.view, b.view}) {  // every element of the memory, those of one row once
    for (int64_t i = 0; i < view.sizes[0]; ++i) {
      for (int64_t j = 0; j < view.sizes[1]; ++j)
        view.ptr<X>()[i * view.strides[0] + j * view.strides[1]] = static_cast<X>(testing::engine()());
    }
  }
  testing::expect_same_for_thread_counts([&] {
    Buffer c = poisoned({shape.m, shape.n}, dtype_of<X>);
    kernels::cpu::mm({}, a.view, b.view, c.view);
    return testing::bytes(c);
  });
  const Buffer c = poisoned({shape.m, shape.n}, dtype_of<X>);
  kernels::cpu::mm({}, a.view, b.view, c.view);
  std::vector<uint64_t> row(static_cast<size_t>(shape.n));
  for (int64_t i = 0; i < shape.m; ++i) {
    std::fill(row.begin(), row.end(), uint64_t{0});
    for (int64_t p = 0; p < shape.k; ++p) {
      const auto factor = static_cast<uint64_t>(a.view.ptr<X>()[i * a.view.strides[0] + p * a.view.strides[1]]);
      const X* const from = b.view.ptr<X>() + p * b.view.strides[0];
      for (int64_t j = 0; j < shape.n; ++j)
        row[static_cast<size_t>(j)] += factor * static_cast<uint64_t>(from[j * b.view.strides[1]]);
    }
    for (int64_t j = 0; j < shape.n; ++j)
      ASSERT_EQ(static_cast<Word>(c.view.ptr<X>()[i * shape.n + j]), static_cast<Word>(row[static_cast<size_t>(j)]))
          << i << " " << j;
  }
}

// Vectors, factors on the right that are read where they are, packed at once or panel by panel, and k in one piece and in
// several.
TEST(Mm, IntegersWrapAroundInEveryLayout) {
  for (const Shape& shape :
       {Shape{1, 1, 1}, Shape{65, 130, 70}, Shape{5, 3, 0}, Shape{200, 7, 129}, Shape{2050, 1, 70}, Shape{1, 2050, 33},
        Shape{3, 1, 0}, Shape{1, 17, 500}, Shape{0, 4, 3}, Shape{4, 0, 3}, Shape{23, 9, 2100}, Shape{70, 300, 611},
        Shape{530, 131, 513}, Shape{1, 1100, 300}, Shape{40, 1, 2500}}) {
    for (int layouts = 0; layouts < 16; ++layouts) {
      SCOPED_TRACE(fmt::format("m {} n {} k {} layouts {}", shape.m, shape.n, shape.k, layouts));
      expect_exact_products<int64_t>(shape, layouts / 4, layouts % 4);
      expect_exact_products<int32_t>(shape, layouts / 4, layouts % 4);
      expect_exact_products<uint8_t>(shape, layouts / 4, layouts % 4);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(EveryDType, LargeProductsUseSeveralTilesAndChunks) {
  const Buffer a = random_normal({2117, 650}, GetParam()).transposed(0, 1), b = random_normal({2117, 301}, GetParam());
  const Buffer c = poisoned({650, 301}, GetParam());
  kernels::cpu::mm({}, a.view, b.view, c.view);
  expect_close(c.view, naive(a.view, b.view), tolerance(GetParam(), 2117));
}

// Rows and columns that fill no block, with b as it lies and packed, in one step and in several, of K and of columns and items.
TEST_P(EveryDType, BlocksOfEveryRemainderTakeEveryLayout) {
  std::uniform_int_distribution<int64_t> side(16, 120), depth(8, 80);
  std::vector<Shape> shapes = {{31, 47, 257}, {100, 100, 100}, {85, 33, 700}, {700, 33, 20}, {16, 2100, 300}, {1400, 17, 30}};
  for (int i = 0; i < 12; ++i) shapes.push_back({side(testing::engine()), side(testing::engine()), depth(testing::engine())});
  for (const Shape& shape : shapes) {
    for (int layouts = 0; layouts < 9; ++layouts) {
      const Buffer a = operand(shape.m, shape.k, GetParam(), layouts / 3), b = operand(shape.k, shape.n, GetParam(), layouts % 3);
      SCOPED_TRACE(fmt::format("m {} n {} k {} layouts {}", shape.m, shape.n, shape.k, layouts));
      const std::vector<double> want = naive(a.view, b.view);
      testing::expect_same_for_thread_counts([&] {
        Buffer c = poisoned({shape.m, shape.n}, GetParam());
        kernels::cpu::mm({}, a.view, b.view, c.view);
        expect_close(c.view, want, tolerance(GetParam(), shape.k));
        return testing::bytes(c);
      });
      if (HasFatalFailure()) return;
    }
  }
}

// More of b than the second cache holds: few rows are packed for several tasks, many by each task.
TEST_P(EveryDType, LargeFactorsOnTheRightTakeFewRowsAndMany) {
  constexpr int64_t kEvery = 61;
  const auto some_rows = [](View view) {
    view.sizes[0] = (view.sizes[0] + kEvery - 1) / kEvery;
    view.strides[0] *= kEvery;
    return view;
  };
  for (const Shape& shape : {Shape{530, 427, 700}, Shape{1400, 150, 1800}}) {
    for (int layout = 0; layout < 2; ++layout) {
      const Buffer a = operand(shape.m, shape.k, GetParam(), layout), b = operand(shape.k, shape.n, GetParam(), 1 - layout);
      const std::vector<double> want = naive(some_rows(a.view), b.view);
      testing::expect_same_for_thread_counts([&] {
        Buffer c = poisoned({shape.m, shape.n}, GetParam());
        kernels::cpu::mm({}, a.view, b.view, c.view);
        expect_close(some_rows(c.view), want, tolerance(GetParam(), shape.k));
        return testing::bytes(c);
      });
      if (HasFatalFailure()) return;
    }
  }
}

// A few items are packed together, many each by its task.
TEST_P(EveryDType, BmmTakesFewItemsAndMany) {
  for (const int64_t batch : {5, 40}) {
    const int64_t m = 130, k = 70, n = 90;
    const Buffer a = random_normal({batch, m, k}, GetParam()), b = random_normal({batch, n, k}, GetParam()).transposed(1, 2);
    const auto slice = [](const View& view, int64_t item) {
      View matrix = view;
      matrix.ndim = 2;
      for (int dim = 0; dim < 2; ++dim) matrix.sizes[dim] = view.sizes[dim + 1], matrix.strides[dim] = view.strides[dim + 1];
      matrix.data = static_cast<char*>(view.data) + item * view.strides[0] * item_size(view.dtype);
      return matrix;
    };
    testing::expect_same_for_thread_counts([&] {
      Buffer c = poisoned({batch, m, n}, GetParam());
      kernels::cpu::bmm({}, a.view, b.view, c.view);
      for (int64_t item = 0; item < batch; ++item)
        expect_close(slice(c.view, item), naive(slice(a.view, item), slice(b.view, item)), tolerance(GetParam(), k));
      return testing::bytes(c);
    });
  }
}

TEST_P(EveryDType, BmmMultipliesEveryItemAndTakesBroadcastBatches) {
  const int64_t batch = 7, m = 13, k = 21, n = 5;
  const Buffer a = random_normal({batch, k, m}, GetParam()).transposed(1, 2);
  Buffer b = random_normal({1, k, n}, GetParam());
  b.view.sizes[0] = batch;
  b.view.strides[0] = 0;
  const Buffer c = poisoned({batch, m, n}, GetParam());
  kernels::cpu::bmm({}, a.view, b.view, c.view);
  for (int64_t item = 0; item < batch; ++item) {
    const auto slice = [&](const View& view) {
      View matrix = view;
      matrix.ndim = 2;
      for (int dim = 0; dim < 2; ++dim) matrix.sizes[dim] = view.sizes[dim + 1], matrix.strides[dim] = view.strides[dim + 1];
      matrix.data = static_cast<char*>(view.data) + item * view.strides[0] * item_size(view.dtype);
      return matrix;
    };
    expect_close(slice(c.view), naive(slice(a.view), slice(b.view)), tolerance(GetParam(), k));
  }
}

TEST_P(EveryDType, LinearAddsTheBiasAndKeepsLeadingDims) {
  for (const int64_t k : {17, 1500}) {
    const Buffer x = random_normal({3, 11, k}, GetParam()), w = random_normal({37, k}, GetParam());
    Buffer bias = random_normal({37, 2}, GetParam());
    bias.view.ndim = 1;  // stride 2
    View flat = x.view, weight = w.view;
    flat.ndim = 2;
    flat.sizes[0] = 33, flat.sizes[1] = k, flat.strides[0] = k, flat.strides[1] = 1;
    std::swap(weight.sizes[0], weight.sizes[1]);
    std::swap(weight.strides[0], weight.strides[1]);
    std::vector<double> want = naive(flat, weight);
    const Buffer plain = poisoned({3, 11, 37}, GetParam()), biased = poisoned({3, 11, 37}, GetParam());
    kernels::cpu::linear({}, x.view, w.view, View{}, plain.view);
    expect_close(plain.view, want, tolerance(GetParam(), k));
    const std::vector<double> added = values(bias.view);
    for (size_t i = 0; i < want.size(); ++i) want[i] += added[i % 37];
    kernels::cpu::linear({}, x.view, w.view, bias.view, biased.view);
    expect_close(biased.view, want, tolerance(GetParam(), k));
  }
}

TEST_P(EveryDType, LinearWeightBackwardSumsOverRows) {
  const Buffer grad = random_normal({29, 41, 6}, GetParam()), x = random_normal({29, 41, 10}, GetParam());
  const Buffer result = poisoned({6, 10}, GetParam());
  kernels::cpu::linear_weight_backward({}, grad.view, x.view, result.view);
  View g = grad.view, flat = x.view;
  g.ndim = flat.ndim = 2;
  g.sizes[0] = 6, g.sizes[1] = 29 * 41, g.strides[0] = 1, g.strides[1] = 6;
  flat.sizes[0] = 29 * 41, flat.sizes[1] = 10, flat.strides[0] = 10, flat.strides[1] = 1;
  expect_close(result.view, naive(g, flat), tolerance(GetParam(), 29 * 41));
}

TEST_P(EveryDType, EmptySumsAreZeroOrTheBias) {
  const Buffer a = random_normal({4, 0}, GetParam()), b = random_normal({0, 5}, GetParam()), c = poisoned({4, 5}, GetParam());
  kernels::cpu::mm({}, a.view, b.view, c.view);
  expect_close(c.view, std::vector<double>(20, 0.0), 0);
  const Buffer none = poisoned({0, 5}, GetParam()), rows = random_normal({0, 3}, GetParam()),
               cols = random_normal({3, 5}, GetParam());
  kernels::cpu::mm({}, rows.view, cols.view, none.view);
  const Buffer w = random_normal({5, 0}, GetParam()), bias = random_normal({5}, GetParam());
  kernels::cpu::linear({}, a.view, w.view, bias.view, c.view);
  for (int row = 0; row < 4; ++row)
    EXPECT_EQ(testing::load(c.view.data, GetParam(), row * 5 + 2), testing::load(bias.view.data, GetParam(), 2));
}

// Tiles of float16 that are split into bfloat16 where that has AMX.
constexpr Shape kSplit{300, 260, 700};

// (1 + 3 e) (1 + 5 e) - (1 + 8 e) = 15 e^2, of which only the products of the lower parts are left: in all 5e-3, beside what
// float32 rounds of sums.
TEST(Float16, LargeProductsKeepEveryBitOfTheirFactors) {
  constexpr double e = 0x1p-10;
  for (int layouts = 0; layouts < 4; ++layouts) {
    const Buffer a = operand(kSplit.m, kSplit.k, DType::float16, layouts / 2),
                 b = operand(kSplit.k, kSplit.n, DType::float16, layouts % 2), c = poisoned({kSplit.m, kSplit.n}, DType::float16);
    for (int64_t p = 0; p < kSplit.k; ++p) {
      const bool odd = p % 2 != 0;
      for (int64_t i = 0; i < kSplit.m; ++i)
        a.view.ptr<float16>()[i * a.view.strides[0] + p * a.view.strides[1]] = float16(odd ? -1.0 : 1 + 3 * e);
      for (int64_t j = 0; j < kSplit.n; ++j)
        b.view.ptr<float16>()[p * b.view.strides[0] + j * b.view.strides[1]] = float16(odd ? 1 + 8 * e : 1 + 5 * e);
    }
    kernels::cpu::mm({}, a.view, b.view, c.view);
    expect_close(c.view, std::vector<double>(static_cast<size_t>(kSplit.m * kSplit.n), kSplit.k / 2 * 15 * e * e), 1e-3);
  }
}

TEST(Float16, LargeProductsOfInfinityAndNanAreThose) {
  const Buffer a = random_normal({kSplit.m, kSplit.k}, DType::float16), b = random_normal({kSplit.k, kSplit.n}, DType::float16),
               c = poisoned({kSplit.m, kSplit.n}, DType::float16);
  for (int64_t j = 0; j < kSplit.n; ++j) b.view.ptr<float16>()[3 * kSplit.n + j] = float16(1.0f);  // whose lower part is 0
  a.view.ptr<float16>()[5 * kSplit.k + 3] = float16(std::numeric_limits<float>::infinity());
  a.view.ptr<float16>()[7 * kSplit.k + 4].bits = 0x7c01;  // NaN, whose upper part would be infinite
  kernels::cpu::mm({}, a.view, b.view, c.view);
  expect_close(c.view, naive(a.view, b.view), tolerance(DType::float16, kSplit.k));
}

TEST_P(EveryDType, AnyNumberOfThreadsGivesTheSameBits) {
  for (const Shape& shape : {Shape{64, 64, 8192}, Shape{256, 256, 8192}, Shape{1100, 130, 300}, Shape{33, 2500, 70}}) {
    for (int layout = 0; layout < 2; ++layout) {
      const Buffer a = operand(shape.m, shape.k, GetParam(), layout), b = operand(shape.k, shape.n, GetParam(), 0);
      SCOPED_TRACE(::testing::Message() << "m " << shape.m << " n " << shape.n << " k " << shape.k);
      testing::expect_same_for_thread_counts([&] {
        const Buffer c = poisoned({shape.m, shape.n}, GetParam());
        kernels::cpu::mm({}, a.view, b.view, c.view);
        return testing::bytes(c);
      });
    }
  }
}

TEST_P(EveryDType, ConcurrentCallersDoNotDisturbEachOther) {
  const Buffer a = random_normal({300, 200}, GetParam()), b = random_normal({200, 100}, GetParam());
  const Buffer want = poisoned({300, 100}, GetParam());
  kernels::cpu::mm({}, a.view, b.view, want.view);
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int repeat = 0; repeat < 20; ++repeat) {
        const Buffer c = poisoned({300, 100}, GetParam());
        kernels::cpu::mm({}, a.view, b.view, c.view);
        if (testing::bytes(c) != testing::bytes(want)) ++wrong;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

/// Room for numbers of which few are touched; the system gives memory to those alone.
template <typename T>
struct Sparse {
  size_t bytes;
  T* data;

  explicit Sparse(int64_t count)
      : bytes(static_cast<size_t>(count) * sizeof(T)),
        data(static_cast<T*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {}
  ~Sparse() {
    if (there()) munmap(data, bytes);
  }
  Sparse(const Sparse&) = delete;
  bool there() const { return data != MAP_FAILED; }
};

// OpenBLAS takes strides of 32 bits; float32 of one shape goes to oneDNN, many shapes together to OpenBLAS.
TEST(Product, StridesMayExceed32Bits) {
  constexpr int64_t kRows = 8, kDepth = 64, kCols = 128, kStride = (int64_t{1} << 31) + 8;
  for (const DType dtype : {DType::float64, DType::float32}) {
    visit_floating(dtype, [&]<typename T>(TypeTag<T>) {
      if constexpr (sizeof(T) > 2) {
        for (const bool transposed : {false, true}) {
          const Sparse<T> a((transposed ? kDepth : kRows) * kStride), c(kRows * kStride);
          if (!a.there() || !c.there()) GTEST_SKIP() << "the system gives no address space";
          std::vector<T> b(kDepth * kCols, T(1));
          const int64_t row = transposed ? 1 : kStride, col = transposed ? kStride : 1;
          for (int64_t i = 0; i < kRows; ++i) {
            for (int64_t k = 0; k < kDepth; ++k) a.data[i * row + k * col] = T(i + 1);
          }
          kernels::cpu::matmul::Product product;
          product.a = {a.data, dtype, kRows, kDepth, row, col};
          product.b = {b.data(), dtype, kDepth, kCols, kCols, 1};
          const auto expect_products = [&](int64_t leading) {
            for (int64_t i = 0; i < kRows; ++i) {
              for (int64_t j = 0; j < kCols; ++j) ASSERT_EQ(c.data[i * leading + j], T(kDepth * (i + 1))) << i << " " << j;
            }
          };
          for (const int64_t leading : {kCols, kStride}) {
            product.c = c.data;
            product.c_leading = leading;
            multiply(product);
            expect_products(leading);
            std::fill_n(c.data, kCols, T(0));
            kernels::cpu::matmul::Product narrow = product;  // of another shape
            std::vector<T> rest(kRows);
            narrow.b = {b.data(), dtype, kDepth, 1, kCols, 1};
            narrow.c = rest.data(), narrow.c_leading = 1;
            const kernels::cpu::matmul::Product both[] = {product, narrow};
            multiply_each(both);
            expect_products(leading);
            for (int64_t i = 0; i < kRows; ++i) ASSERT_EQ(rest[static_cast<size_t>(i)], T(kDepth * (i + 1)));
          }
        }
      }
    });
  }
}

constexpr const char* kOneCore = "this OpenBLAS was built for a single core type";
bool openblas_has_one_core() { return gotoblas_dynamic_init == nullptr; }

// OpenBLAS takes a processor newer than itself for the oldest.
TEST(InstructionSet, OfTheProcessorIsUsedByOpenBlas) {
  const Buffer a = random_normal({8, 128}, DType::float64), b = random_normal({128, 128}, DType::float64),
               c = poisoned({8, 128}, DType::float64);  // flat: no blocks of registers
  kernels::cpu::mm({}, a.view, b.view, c.view);
  if (std::getenv("OPENBLAS_CORETYPE") != nullptr) GTEST_SKIP() << "OPENBLAS_CORETYPE is set";
  if (openblas_has_one_core()) GTEST_SKIP() << kOneCore;
  EXPECT_EQ(cpu_isa() == CpuIsa::sse2, std::string_view(openblas_get_corename()) == "Prescott");
}

/// In a process of its own, which has multiplied nothing: at the first product another thread may be reading the environment.
TEST(InstructionSet, IsSelectedInOpenBlasBeforeMain) {
  if (asked_isa() == nullptr) GTEST_SKIP() << "DECKLE_CPU is not set";
  if (openblas_has_one_core()) GTEST_SKIP() << kOneCore;
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto tell_core = [] {
    fmt::print(stderr, "{}", openblas_get_corename());
    std::exit(0);
  };
  const char* const core = cpu_isa() == CpuIsa::sse2 ? "Prescott" : cpu_isa() == CpuIsa::avx2 ? "Haswell" : "SkylakeX";
  EXPECT_EXIT(tell_core(), ::testing::ExitedWithCode(0), core);
}

TEST(InstructionSet, IsCappedInBothLibraries) {
  for (const DType dtype : {DType::float32, DType::float64}) {
    // Flat: neither small nor in blocks of registers, which take no library.
    const Buffer a = random_normal({8, 128}, dtype), b = random_normal({128, 128}, dtype), c = poisoned({8, 128}, dtype);
    kernels::cpu::mm({}, a.view, b.view, c.view);
  }
  const char* cap = std::getenv("DECKLE_CPU");
  if (cap == nullptr || *cap == 0) GTEST_SKIP() << "DECKLE_CPU is not set";
  constexpr int kAvx2 = 0x7, kAvx512Bf16 = 0xe7;  // bits of dnnl_cpu_isa_t
  const int isa = dnnl_get_effective_cpu_isa();
  std::string core = openblas_get_corename();
  switch (cpu_isa()) {
    case CpuIsa::sse2:
      EXPECT_LT(isa, kAvx2);
      core = "Prescott";
      break;
    case CpuIsa::avx2:
      EXPECT_EQ(isa, kAvx2);
      core = "Haswell";
      break;
    case CpuIsa::avx512:
      EXPECT_NE(isa & kAvx512Bf16, kAvx512Bf16);
      core = "SkylakeX";
      break;
    case CpuIsa::avx512_bf16:
    case CpuIsa::amx_bf16:
      EXPECT_EQ(isa & kAvx512Bf16, kAvx512Bf16);
      break;
  }
  if (openblas_has_one_core()) GTEST_SKIP() << kOneCore;
  EXPECT_EQ(openblas_get_corename(), core);
}

/// In a process of its own, whose oneDNN takes no limit any more.
TEST(InstructionSet, IsNoneThatOneDnnRefuses) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto multiply = [] {
    dnnl_get_effective_cpu_isa();
    const Buffer a = random_normal({8, 128}, DType::float32), b = random_normal({128, 128}, DType::float32),
                 c = poisoned({8, 128}, DType::float32);  // flat
    try {
      kernels::cpu::mm({}, a.view, b.view, c.view);
    } catch (const Error&) {
      std::exit(3);
    }
    expect_close(c.view, naive(a.view, b.view), tolerance(DType::float32, 128));
    std::exit(::testing::Test::HasFailure() ? 5 : 0);
  };
  const CpuIsa most = amx_granted() ? CpuIsa::amx_bf16 : CpuIsa::avx512_bf16;
  EXPECT_EXIT(multiply(), ::testing::ExitedWithCode(cpu_isa() < std::min(cpu_info().isa, most) ? 3 : 0), "");
}

constexpr int kAmxTiles = 0x300;  // what dnnl_cpu_isa_t of AMX has beside AVX512-BF16

TEST(Bf16Products, TakeTheArithmeticThatIsForced) {
  const Buffer a = random_normal({300, 200}, DType::bfloat16), b = random_normal({200, 100}, DType::bfloat16),
               c = poisoned({300, 100}, DType::bfloat16);
  kernels::cpu::mm({}, a.view, b.view, c.view);
  if (std::getenv("DECKLE_CPU") == nullptr) GTEST_SKIP() << "DECKLE_CPU is not set";
  if (cpu_isa() < CpuIsa::avx512_bf16) {
    EXPECT_EQ(bf16_arithmetic(), Bf16Arithmetic::widened);
  } else if (cpu_isa() == CpuIsa::avx512_bf16) {
    EXPECT_EQ(bf16_arithmetic(), Bf16Arithmetic::pair_dot);
    EXPECT_EQ(dnnl_get_effective_cpu_isa() & kAmxTiles, 0);
  }
}

#if defined(__x86_64__) && defined(__linux__)
/// In a process of its own, before the arithmetic has been chosen.
TEST(Bf16Products, AreRightWhereTheSystemRefusesTiles) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto run_refused = [] {
    testing::refuse_tiles();
    for (const Shape& shape : {Shape{67, 1, 130}, Shape{8, 8, 8}, Shape{130, 70, 64}, Shape{577, 33, 19}, Shape{300, 200, 700}}) {
      for (int layouts = 0; layouts < 4; ++layouts) {
        const Buffer a = operand(shape.m, shape.k, DType::bfloat16, layouts / 2),
                     b = operand(shape.k, shape.n, DType::bfloat16, layouts % 2),
                     c = poisoned({shape.m, shape.n}, DType::bfloat16);
        kernels::cpu::mm({}, a.view, b.view, c.view);
        expect_close(c.view, naive(a.view, b.view), tolerance(DType::bfloat16, shape.k));
      }
    }
    if ((dnnl_get_effective_cpu_isa() & kAmxTiles) != 0) std::exit(6);
    std::exit(::testing::Test::HasFailure() ? 5 : 0);
  };
  EXPECT_EXIT(run_refused(), ::testing::ExitedWithCode(0), "");
}
#endif

}  // namespace
}  // namespace deckle
