// The pointwise driver against naive indexing in float64: random shapes, broadcasts, permutations, slices and dtypes.
#include "deckle/kernels/cpu/pointwise/driver.h"

#include <array>
#include <atomic>

#include "deckle/base/error.h"
#include "deckle/base/parallel.h"
#include "tests/kernels/cpu/support/buffer.h"
#include "tests/kernels/cpu/support/threads.h"

namespace deckle::kernels::cpu::pointwise {
namespace {

using testing::Buffer;

/// first = a * b + number, second = a < b; counts its calls, which come from several threads.
std::atomic<int64_t> calls{0};
template <typename T>
void multiply_add_and_compare(int64_t n, const T* const* in, const uint8_t* is_scalar, T* const* out) {
  ++calls;
  for (int64_t i = 0; i < n; ++i) {
    const T a = in[0][is_scalar[0] ? 0 : i], b = in[1][is_scalar[1] ? 0 : i], c = in[2][is_scalar[2] ? 0 : i];
    const T sum = a * b + c, less = a < b ? T(1) : T(0);
    out[0][i] = sum;
    out[1][i] = less;
  }
}
/// The same of halves, whose numbers are floats.
template <typename H>
void multiply_add_and_compare_halves(int64_t n, const H* const* in, const uint8_t* is_scalar, H* const* out) {
  ++calls;
  const auto at = [&](int input, int64_t i) {
    if (is_scalar[input] == kNumber) return *reinterpret_cast<const float*>(in[input]);
    return static_cast<float>(in[input][is_scalar[input] == kElement ? 0 : i]);
  };
  for (int64_t i = 0; i < n; ++i) {
    const float a = at(0, i), b = at(1, i);
    out[0][i] = H(a * b + at(2, i));
    out[1][i] = H(a < b ? 1.0f : 0.0f);
  }
}
const Blocks kBlocks{&multiply_add_and_compare<float>,          &multiply_add_and_compare<double>,
                     &multiply_add_and_compare<int64_t>,        &multiply_add_and_compare_halves<bfloat16>,
                     &multiply_add_and_compare_halves<float16>, &multiply_add_and_compare<int32_t>};

int64_t below(int64_t end) { return std::uniform_int_distribution<int64_t>(0, end - 1)(testing::engine()); }

/// Small integers, exact in every dtype, with random strides: dims permuted, some with a step.
Buffer random_strided(std::vector<int64_t> sizes, DType dtype) {
  const size_t ndim = sizes.size();
  std::vector<size_t> order(ndim);
  for (size_t i = 0; i < ndim; ++i) order[i] = i;
  if (below(2)) std::shuffle(order.begin(), order.end(), testing::engine());
  std::vector<int64_t> memory_sizes(ndim), steps(ndim, 1);
  for (size_t i = 0; i < ndim; ++i) {
    if (below(4) == 0) steps[order[i]] = 2;
    memory_sizes[i] = sizes[order[i]] * steps[order[i]];
  }
  Buffer buffer = testing::random_integers(memory_sizes, dtype, 0, dtype == DType::bool_ ? 2 : 8);
  const View memory = buffer.view;
  for (size_t i = 0; i < ndim; ++i) {
    buffer.view.sizes[order[i]] = sizes[order[i]];
    buffer.view.strides[order[i]] = memory.strides[i] * steps[order[i]];
  }
  return buffer;
}

View broadcast(View view, const View& shape) {
  View result = view;
  result.ndim = shape.ndim;
  for (int d = 0; d < shape.ndim; ++d) {
    const int own = d - (shape.ndim - view.ndim);
    result.sizes[d] = shape.sizes[d];
    result.strides[d] = own < 0 || view.sizes[own] == 1 ? 0 : view.strides[own];
  }
  return result;
}

void expect_right(DType compute, const View& a, const View& b, Number number, const View& sum, const View& less) {
  const View inputs[] = {a, b}, outputs[] = {sum, less};
  const std::vector<double> x = testing::values(broadcast(a, sum)), y = testing::values(broadcast(b, sum));
  run(kBlocks, compute, inputs, {&number, 1}, outputs);
  std::vector<double> want_sum, want_less;
  for (size_t i = 0; i < x.size(); ++i) {
    want_sum.push_back(sum.dtype == DType::bool_ ? x[i] * y[i] + number.real != 0 : x[i] * y[i] + number.real);
    want_less.push_back(x[i] < y[i]);
  }
  ASSERT_EQ(testing::values(sum), want_sum);
  ASSERT_EQ(testing::values(less), want_less);
}

TEST(PointwiseDriver, EveryShapeStrideAndDtypeGivesWhatIndexingGives) {
  const DType dtypes[] = {DType::bool_,   DType::uint8,    DType::int32,   DType::int64,
                          DType::float16, DType::bfloat16, DType::float32, DType::float64};
  const std::vector<std::vector<int64_t>> extra = {{70000}, {3, 33000}, {300, 300}, {5000, 7}, {40, 3, 256},
                                                   {1},     {},         {0},        {4, 0, 3}, {600, 2, 5}};
  for (int round = 0; round < 400; ++round) {
    std::vector<int64_t> sizes;
    if (round < static_cast<int>(extra.size() * 6)) {
      sizes = extra[static_cast<size_t>(round) % extra.size()];
    } else {
      const int64_t dims = below(5), long_dim = below(6);  // one long dim at most: four would fill the memory
      for (int64_t d = 0; d < dims; ++d) sizes.push_back(d == long_dim ? 300 : 1 + below(9));
    }
    const auto operand_sizes = [&] {
      std::vector<int64_t> result(sizes.begin() + (sizes.empty() ? 0 : below(static_cast<int64_t>(sizes.size()) + 1) * below(2)),
                                  sizes.end());
      for (int64_t& size : result)
        if (below(4) == 0) size = 1;
      return result;
    };
    const bool plain = below(3) == 0;   // all of one dtype and dense: the flat path
    const bool stored = below(3) == 0;  // all of a dtype that needs no buffers
    const DType one =
        stored ? std::array{DType::bfloat16, DType::float16, DType::int32}[static_cast<size_t>(below(3))] : DType::float32;
    const DType a_type = plain || stored ? one : dtypes[below(8)], b_type = plain || stored ? one : dtypes[below(8)];
    const DType compute = is_floating(a_type) || is_floating(b_type)
                              ? (a_type == DType::float64 || b_type == DType::float64 ? DType::float64 : DType::float32)
                              : DType::int64;
    const DType result = plain || stored ? one : dtypes[2 + below(6)];
    Buffer a = plain ? testing::random_integers(operand_sizes(), a_type, 0, 8) : random_strided(operand_sizes(), a_type);
    Buffer b = plain ? testing::random_integers(operand_sizes(), b_type, 0, 8) : random_strided(operand_sizes(), b_type);
    Buffer sum = plain ? testing::poisoned(sizes, result) : random_strided(sizes, result);
    Buffer less = plain ? testing::poisoned(sizes, one) : random_strided(sizes, !stored && below(2) ? DType::bool_ : result);
    SCOPED_TRACE(::testing::Message() << "round " << round << " dtypes " << name(a_type) << " " << name(b_type) << " -> "
                                      << name(result));
    const double number = static_cast<double>(below(5));
    expect_right(compute, a.view, b.view, {number, static_cast<int64_t>(number)}, sum.view, less.view);
    if (HasFatalFailure()) return;
  }
}

template <typename T>
void square(int64_t n, const T* const* in, const uint8_t* is_scalar, T* const* out) {
  for (int64_t i = 0; i < n; ++i) {
    const T x = in[0][is_scalar[0] ? 0 : i];
    out[0][i] = x * x;
  }
}

TEST(PointwiseDriver, WritesInPlaceThroughAnyStridesAndDtypes) {
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float64, DType::int32}) {
    for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{1000, 3}, {5, 2000}, {70000}, {3, 4, 5}}) {
      Buffer x = random_strided(sizes, dtype);
      std::vector<double> want = testing::values(x.view);
      for (double& value : want) value *= value;
      run({&square<float>, &square<double>, &square<int64_t>}, dtype, {&x.view, 1}, {}, {&x.view, 1});
      EXPECT_EQ(testing::values(x.view), want) << name(dtype);
    }
  }
}

/// Numbers beyond int32 are compared as they are: elements are then computed in int64.
TEST(PointwiseDriver, NumbersBeyondInt32MeanWhatTheyAre) {
  const auto less = [](int64_t n, const auto* const* in, const uint8_t* is_scalar, auto* const* out) {
    for (int64_t i = 0; i < n; ++i) out[0][i] = in[0][is_scalar[0] ? 0 : i] < *in[1] ? 1 : 0;
  };
  const Blocks blocks{nullptr, nullptr, less, nullptr, nullptr, less};
  const Buffer x = testing::random_integers({100}, DType::int32, -5, 5), result = testing::poisoned({100}, DType::int32);
  for (const int64_t number : {int64_t{1} << 32, -(int64_t{1} << 32), int64_t{2}}) {
    const Number bound{static_cast<double>(number), number};
    run(blocks, DType::int64, {&x.view, 1}, {&bound, 1}, {&result.view, 1});
    for (int64_t i = 0; i < 100; ++i) EXPECT_EQ(result.view.ptr<int32_t>()[i], x.view.ptr<int32_t>()[i] < number ? 1 : 0);
  }
}

TEST(PointwiseDriver, ResultsDoNotDependOnTheNumberOfThreads) {
  Buffer a = testing::random_normal({700, 300}, DType::float32), b = testing::random_normal({300}, DType::float32);
  testing::expect_same_for_thread_counts([&] {
    Buffer sum = testing::poisoned({700, 300}, DType::float32), less = testing::poisoned({700, 300}, DType::bool_);
    const View inputs[] = {a.view, b.view}, outputs[] = {sum.view, less.view};
    const Number number{0.5, 0};
    run(kBlocks, DType::float32, inputs, {&number, 1}, outputs);
    return testing::bytes(sum, less);
  });
}

TEST(PointwiseDriver, ReadsTransposedOperandsInTiles) {
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{300, 500}, {3, 270, 700}, {17, 40000}}) {
    for (const DType dtype : {DType::float32, DType::bfloat16}) {
      const int last = static_cast<int>(sizes.size()) - 1;
      std::vector<int64_t> swapped = sizes;
      std::swap(swapped[static_cast<size_t>(last)], swapped[static_cast<size_t>(last - 1)]);
      Buffer a = testing::random_integers(swapped, dtype, 0, 8);
      std::swap(a.view.sizes[last], a.view.sizes[last - 1]);
      std::swap(a.view.strides[last], a.view.strides[last - 1]);
      for (const DType other : {DType::float32, dtype}) {
        Buffer b = testing::random_integers(sizes, other, 0, 8), sum = testing::poisoned(sizes, other),
               less = testing::poisoned(sizes, other == DType::float32 ? DType::bool_ : other);
        expect_right(DType::float32, a.view, b.view, {2, 2}, sum.view, less.view);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(PointwiseDriver, ABroadcastRowIsNotCopiedForEveryRow) {
  Buffer a = testing::random_integers({1000, 8}, DType::float32, 0, 8), b = testing::random_integers({8}, DType::float32, 0, 8);
  Buffer sum = testing::poisoned({1000, 8}, DType::float32), less = testing::poisoned({1000, 8}, DType::float32);
  calls = 0;
  expect_right(DType::float32, a.view, b.view, {1, 1}, sum.view, less.view);
  EXPECT_LE(calls, 8);
}

TEST(PointwiseDriver, RowsThroughATableAreReadWhereTheyAre) {
  for (const std::vector<int64_t>& sizes :
       {std::vector<int64_t>{900, 400}, {900, 24}, {2, 31, 16}, {3000, 2, 17}, {1500, 1, 64}}) {
    for (const DType dtype : {DType::float32, DType::bfloat16, DType::float64}) {
      std::vector<int64_t> few = sizes, broad = sizes;
      few[0] = 7;
      if (sizes.size() == 3) broad[1] = sizes[1] == 1 ? 5 : sizes[1];  // the operand repeats along a dim of its own, too
      std::vector<int64_t> table(static_cast<size_t>(sizes[0]));
      for (int64_t& row : table) row = below(7);
      Buffer b = testing::random_integers(few, dtype, 0, 8), written_out(sizes, dtype);
      const int64_t inner = b.view.strides[0];
      for (int64_t i = 0; i < written_out.view.numel(); ++i) {
        testing::store(written_out.view.data, dtype, i,
                       testing::load(b.view.data, dtype, table[static_cast<size_t>(i / inner)] * inner + i % inner));
      }
      b.view.sizes[0] = sizes[0];
      b.view.table = table.data();
      Buffer a = testing::random_integers(broad, dtype, 0, 8);
      const DType second = dtype == DType::bfloat16 ? dtype : DType::bool_;
      const Buffer sum = testing::poisoned(broad, dtype), less = testing::poisoned(broad, second);
      const Buffer want_sum = testing::poisoned(broad, dtype), want_less = testing::poisoned(broad, second);
      const Number number{3, 3};
      const View through[] = {a.view, b.view}, plain[] = {a.view, written_out.view};
      const View outputs[] = {sum.view, less.view}, want[] = {want_sum.view, want_less.view};
      const DType compute = dtype == DType::float64 ? DType::float64 : DType::float32;
      run(kBlocks, compute, through, {&number, 1}, outputs);
      run(kBlocks, compute, plain, {&number, 1}, want);
      EXPECT_EQ(testing::values(sum.view), testing::values(want_sum.view)) << name(dtype);
      EXPECT_EQ(testing::values(less.view), testing::values(want_less.view)) << name(dtype);
    }
  }
}

TEST(PointwiseDriver, SaysWhatIsWrong) {
  Buffer a = testing::random_normal({4, 3}, DType::float32), b = testing::random_normal({2, 3}, DType::float32);
  Buffer sum = testing::poisoned({4, 3}, DType::float32), less = testing::poisoned({4, 3}, DType::float32);
  const View inputs[] = {a.view, b.view}, outputs[] = {sum.view, less.view};
  const Number number;
  EXPECT_THROW(run(kBlocks, DType::float32, inputs, {&number, 1}, outputs), Error);
  EXPECT_THROW(run({}, DType::float32, {inputs, 1}, {}, outputs), Error);
}

TEST(PointwiseDriver, ConversionsSaturateAndRoundOnce) {
  Buffer source({6}, DType::float64), target = testing::poisoned({6}, DType::int32),
                                      half = testing::poisoned({6}, DType::bfloat16);
  const double values[] = {1e300, -1e300, std::nan(""), 2.9, -2.9, 1 + 0x1p-8 + 0x1p-40};  // the last is above the tie: rounds up
  for (int i = 0; i < 6; ++i) testing::store(source.view.data, DType::float64, i, values[i]);
  const auto identity = [](int64_t n, const double* const* in, const uint8_t*, double* const* out) {
    for (int64_t i = 0; i < n; ++i) out[0][i] = in[0][i];
  };
  run({nullptr, +identity, nullptr}, DType::float64, {&source.view, 1}, {}, {&target.view, 1});
  run({nullptr, +identity, nullptr}, DType::float64, {&source.view, 1}, {}, {&half.view, 1});
  EXPECT_EQ(testing::values(target.view), (std::vector<double>{2147483647, -2147483648.0, 0, 2, -2, 1}));
  EXPECT_EQ(testing::values(half.view)[5], 1 + 0x1p-7);
}

}  // namespace
}  // namespace deckle::kernels::cpu::pointwise
