// channel_norm and its gradients against naive loops in float64: shapes, dtypes, absent parameters, columns far from zero, sizes
// whose squares are no floats, threads.
#include "deckle/kernels/args/context.h"
#include "tests/kernels/cpu/support/buffer.h"
#include "tests/kernels/cpu/support/threads.h"

namespace deckle::kernels::cpu {

void channel_norm(const Context&, const View&, const View&, const View&, double, const View&);
void channel_norm_backward(const Context&, const View&, const View&, const View&, double, const View&, const View&, const View&);

namespace {

using testing::Buffer;
using Values = std::vector<double>;

const Context kContext;

struct Naive {
  Values y, dx, dw, db;
};

/// By definition, of numbers relative to `centre`.
Naive naive(int64_t rows, int64_t n, const Values& x, const Values& g, const Values& w, const Values& b, double eps,
            double centre) {
  const size_t width = static_cast<size_t>(n), height = static_cast<size_t>(rows);
  const double count = static_cast<double>(rows);
  Naive r{Values(x.size()), Values(x.size()), Values(width, 0.0), Values(width, 0.0)};
  for (size_t c = 0; c < width; ++c) {
    double mean = 0, variance = 0;
    for (size_t i = 0; i < height; ++i) mean += (x[i * width + c] - centre) / count;
    const auto at = [&](size_t i) { return x[i * width + c] - centre - mean; };
    for (size_t i = 0; i < height; ++i) variance += at(i) * at(i) / count;
    const double scale = 1 / std::sqrt(variance + eps);
    for (size_t i = 0; i < height; ++i) {
      r.y[i * width + c] = at(i) * scale * w[c] + b[c];
      r.dw[c] += g[i * width + c] * at(i) * scale;
      r.db[c] += g[i * width + c];
    }
    for (size_t i = 0; i < height; ++i)
      r.dx[i * width + c] = scale * w[c] * (g[i * width + c] - r.db[c] / count - at(i) * scale * r.dw[c] / count);
  }
  return r;
}

/// Two sums, 16 terms deep each before they go to double, and ten operations on an element; the reference adds one by one.
double tolerance(DType dtype) { return testing::rounding_bound(dtype, 2 * 16 + 10, 9000); }

class ChannelNorm : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(, ChannelNorm, ::testing::Values(DType::float32, DType::float64, DType::bfloat16, DType::float16),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST_P(ChannelNorm, EqualsItsDefinition) {
  const DType dtype = GetParam(), statistics = dtype == DType::float64 ? DType::float64 : DType::float32;
  for (const std::vector<int64_t>& sizes :
       {std::vector<int64_t>{7, 1}, {33, 5}, {64, 64}, {257, 3}, {700, 96}, {9000, 5}, {0, 4}, {4, 0}, {40, 1100}, {2500, 129}}) {
    const int64_t rows = sizes[0], n = sizes[1];
    for (const bool parameters : {true, false}) {
      const Buffer x = testing::random_normal(sizes, dtype), g = testing::random_normal(sizes, dtype);
      for (int64_t i = 0; i < x.view.numel(); ++i)
        testing::store(x.view.data, dtype, i, testing::load(x.view.data, dtype, i) + 3);
      const Buffer weight = testing::random_normal({n}, dtype), bias = testing::random_normal({n}, dtype);
      const View w = parameters ? weight.view : View{}, b = parameters ? bias.view : View{};
      const Values ones(static_cast<size_t>(n), 1.0), zeros(static_cast<size_t>(n), 0.0);
      SCOPED_TRACE(::testing::Message() << ::testing::PrintToString(sizes) << (parameters ? "" : " bare"));
      const Naive want = naive(rows, n, testing::values(x.view), testing::values(g.view), parameters ? testing::values(w) : ones,
                               parameters ? testing::values(b) : zeros, 1e-3, 0);
      const Buffer y = testing::poisoned(sizes, dtype), dx = testing::poisoned(sizes, dtype),
                   dw = testing::poisoned({n}, statistics), db = testing::poisoned({n}, statistics);
      channel_norm(kContext, x.view, w, b, 1e-3, y.view);
      channel_norm_backward(kContext, g.view, x.view, w, 1e-3, dx.view, dw.view, db.view);
      const double scale = rows < 16 ? 100 : 4;  // few elements: a small variance magnifies
      testing::expect_close(y.view, want.y, tolerance(dtype), scale);
      testing::expect_close(dx.view, want.dx, tolerance(dtype), scale);
      testing::expect_close(dw.view, want.dw, tolerance(statistics), scale * (std::sqrt(static_cast<double>(rows)) + 1));
      testing::expect_close(db.view, want.db, tolerance(statistics), std::sqrt(static_cast<double>(rows)) + 1);
      if (HasFailure()) return;
    }
  }
}

/// Both passes without parameters, into poisoned memory.
struct Bare {
  Buffer y, dx, dw, db;

  Bare(const Buffer& x, const Buffer& g, double eps, DType statistics)
      : y(testing::poisoned(sizes(x), x.view.dtype)),
        dx(testing::poisoned(sizes(x), x.view.dtype)),
        dw(testing::poisoned({x.view.sizes[1]}, statistics)),
        db(testing::poisoned({x.view.sizes[1]}, statistics)) {
    channel_norm(kContext, x.view, View{}, View{}, eps, y.view);
    channel_norm_backward(kContext, g.view, x.view, View{}, eps, dx.view, dw.view, db.view);
  }

 private:
  static std::vector<int64_t> sizes(const Buffer& of) { return {of.view.sizes[0], of.view.sizes[1]}; }
};

TEST(ChannelNormOfFarColumns, IsAsRightAsTheElementsAre) {
  for (const auto& [dtype, centre] : {std::pair(DType::float32, 30000.0), std::pair(DType::float64, 1e12)}) {
    const int64_t rows = 768, n = 5;
    const Buffer x = testing::random_normal({rows, n}, dtype), g = testing::random_normal({rows, n}, dtype);
    for (int64_t i = 0; i < rows * n; ++i) testing::store(x.view.data, dtype, i, testing::load(x.view.data, dtype, i) + centre);
    const Values ones(5, 1.0), zeros(5, 0.0);
    const Naive want = naive(rows, n, testing::values(x.view), testing::values(g.view), ones, zeros, 1e-3, centre);
    const Bare got(x, g, 1e-3, dtype);
    testing::expect_close(got.y.view, want.y, tolerance(dtype), 4);
    testing::expect_close(got.dx.view, want.dx, tolerance(dtype), 4);
    testing::expect_close(got.dw.view, want.dw, tolerance(dtype), 100);
  }
}

TEST(ChannelNormOfAnySize, IsRightWhereSquaresAreNoFloats) {
  for (const double size : {1e38, 1e20, 1e-20, 1e-30}) {
    const Buffer x = testing::random_normal({100, 3}, DType::float32), g = testing::random_normal({100, 3}, DType::float32);
    for (int64_t i = 0; i < 300; ++i) x.view.ptr<float>()[i] = static_cast<float>(x.view.ptr<float>()[i] * size / 4);
    const Values ones(3, 1.0), zeros(3, 0.0);
    Values scaled = testing::values(x.view);
    for (double& value : scaled) value /= size;
    const Naive want = naive(100, 3, scaled, testing::values(g.view), ones, zeros, 0, 0);
    SCOPED_TRACE(size);
    const Bare got(x, g, 0, DType::float32);
    testing::expect_close(got.y.view, want.y, tolerance(DType::float32), 4);
    testing::expect_close(got.dw.view, want.dw, tolerance(DType::float32), 40);
    if (size > 1e30) continue;  // these gradients are no floats
    Values slopes = testing::values(got.dx.view);
    const Buffer unscaled({100, 3}, DType::float64);
    for (size_t i = 0; i < slopes.size(); ++i) unscaled.view.ptr<double>()[i] = slopes[i] * size;
    testing::expect_close(unscaled.view, want.dx, tolerance(DType::float32), 16);
  }
}

TEST(ChannelNormOfAnySize, IsRightWhereSquaresAreNoDoubles) {
  for (const double size : {4e307, 1e200, 1e155, 1e-155, 1e-200, 1e-290}) {
    const Buffer x = testing::random_normal({100, 3}, DType::float64), g = testing::random_normal({100, 3}, DType::float64);
    const Values ones(3, 1.0), zeros(3, 0.0), plain = testing::values(x.view);
    for (int64_t i = 0; i < 300; ++i) x.view.ptr<double>()[i] *= i % 3 == 0 ? 1 : size / 4;  // the first column is usual
    const Naive want = naive(100, 3, plain, testing::values(g.view), ones, zeros, 0, 0);
    SCOPED_TRACE(size);
    const Bare got(x, g, 0, DType::float64);
    testing::expect_close(got.y.view, want.y, tolerance(DType::float64), 4);
    testing::expect_close(got.dw.view, want.dw, tolerance(DType::float64), 40);
    if (size > 1e300) continue;  // these gradients are no normal doubles
    for (int64_t i = 0; i < 300; ++i) got.dx.view.ptr<double>()[i] *= i % 3 == 0 ? 1 : size / 4;
    testing::expect_close(got.dx.view, want.dx, tolerance(DType::float64), 16);
  }
}

TEST(ChannelNormOfAnySize, OfOneValueIsZero) {
  const Buffer x({3, 2}, DType::float64), g({3, 2}, DType::float64);
  for (int64_t i = 0; i < 6; ++i)
    x.view.ptr<double>()[i] = i % 2 == 0 ? 1.7e308 : 7, g.view.ptr<double>()[i] = static_cast<double>(i);
  const Bare got(x, g, 0.25, DType::float64);
  EXPECT_EQ(testing::values(got.y.view), Values(6, 0.0));
  EXPECT_EQ(testing::values(got.dx.view), (Values{-4, -4, 0, 0, 4, 4}));
}

TEST(ChannelNormThreads, ResultsDoNotDependOnTheirNumber) {
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{5000, 100}, {300, 3000}}) {
    const Buffer x = testing::random_normal(sizes, DType::bfloat16), g = testing::random_normal(sizes, DType::bfloat16);
    testing::expect_same_for_thread_counts([&] {
      const Bare got(x, g, 1e-3, DType::float32);
      return testing::bytes(got.y, got.dx, got.dw, got.db);
    });
  }
}

}  // namespace
}  // namespace deckle::kernels::cpu
