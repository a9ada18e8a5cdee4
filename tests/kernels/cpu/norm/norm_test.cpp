// Norms of rows and their gradients against naive loops in float64: shapes, dtypes, absent parameters, threads.
#include "deckle/kernels/args/context.h"
#include "tests/kernels/cpu/support/buffer.h"
#include "tests/kernels/cpu/support/threads.h"

namespace deckle::kernels::cpu {

void rms_norm(const Context&, const View&, const View&, double, const View&);
void rms_norm_backward(const Context&, const View&, const View&, const View&, double, const View&, const View&);
void rms_norm_direction(const Context&, const View&, const View&, double, const View&);
void layer_norm(const Context&, const View&, const View&, const View&, double, const View&);
void layer_norm_backward(const Context&, const View&, const View&, const View&, double, const View&, const View&, const View&);
void layer_norm_direction(const Context&, const View&, const View&, double, const View&);

namespace {

using testing::Buffer;
using Values = std::vector<double>;

const Context kContext;
constexpr double kEps = 1e-3;

struct Naive {
  Values y, dx, dw, db;
};

/// A norm and its derivatives by definition.
Naive naive(bool centred, int64_t rows, int64_t n, const Values& x, const Values& g, const Values& w, const Values& b) {
  const size_t width = static_cast<size_t>(n);
  Naive r{Values(x.size()), Values(x.size()), Values(width, 0.0), Values(width, 0.0)};
  for (size_t row = 0; row < static_cast<size_t>(rows); ++row) {
    const size_t at = row * width;
    double mean = 0, variance = 0, along = 0, offset = 0;
    for (size_t i = 0; i < width && centred; ++i) mean += x[at + i] / static_cast<double>(n);
    for (size_t i = 0; i < width; ++i) variance += (x[at + i] - mean) * (x[at + i] - mean) / static_cast<double>(n);
    const double scale = 1 / std::sqrt(variance + kEps);
    for (size_t i = 0; i < width; ++i) {
      const double xh = (x[at + i] - mean) * scale, gw = g[at + i] * w[i];
      r.y[at + i] = xh * w[i] + b[i];
      along += gw * xh / static_cast<double>(n);
      offset += centred ? gw / static_cast<double>(n) : 0;
      r.dw[i] += g[at + i] * xh;
      r.db[i] += g[at + i];
    }
    for (size_t i = 0; i < width; ++i) r.dx[at + i] = scale * (g[at + i] * w[i] - offset - (x[at + i] - mean) * scale * along);
  }
  return r;
}

/// Two sums, 16 terms deep each before they go to double, and ten operations on an element; the reference adds one by one.
double tolerance(DType dtype) { return testing::rounding_bound(dtype, 2 * 16 + 10, 9000); }

class Norms : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(, Norms, ::testing::Values(DType::float32, DType::float64, DType::bfloat16, DType::float16),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST_P(Norms, EqualTheirDefinition) {
  const DType dtype = GetParam();
  for (const std::vector<int64_t>& sizes :
       {std::vector<int64_t>{5, 1}, {1, 7}, {3, 64}, {2, 3, 257}, {700, 96}, {9000, 5}, {0, 4}, {33}, {4, 2048}}) {
    const int64_t n = sizes.back();
    for (const bool parameters : {true, false}) {
      const Buffer x = testing::random_normal(sizes, dtype), g = testing::random_normal(sizes, dtype);
      for (int64_t i = 0; i < x.view.numel(); ++i)
        testing::store(x.view.data, dtype, i, testing::load(x.view.data, dtype, i) + 3);
      const Buffer weight = testing::random_normal({n}, dtype), bias = testing::random_normal({n}, dtype);
      const View w = parameters ? weight.view : View{}, b = parameters ? bias.view : View{};
      const Values ones(static_cast<size_t>(n), 1.0), zeros(static_cast<size_t>(n), 0.0);
      const int64_t rows = n > 0 ? x.view.numel() / n : 0;
      SCOPED_TRACE(::testing::Message() << ::testing::PrintToString(sizes) << (parameters ? "" : " bare"));
      for (const bool centred : {false, true}) {
        const Naive want = naive(centred, rows, n, testing::values(x.view), testing::values(g.view),
                                 parameters ? testing::values(w) : ones, parameters && centred ? testing::values(b) : zeros);
        const DType statistics = dtype == DType::float64 ? DType::float64 : DType::float32;
        Buffer y = testing::poisoned(sizes, dtype), dx = testing::poisoned(sizes, dtype),
               direction = testing::poisoned(sizes, dtype);
        Buffer dw = testing::poisoned({n}, statistics), db = testing::poisoned({n}, statistics);
        if (centred) {
          layer_norm(kContext, x.view, w, b, kEps, y.view);
          layer_norm_backward(kContext, g.view, x.view, w, kEps, dx.view, dw.view, db.view);
          layer_norm_direction(kContext, g.view, x.view, kEps, direction.view);
          testing::expect_close(db.view, want.db, tolerance(statistics), std::sqrt(static_cast<double>(rows)) + 1);
        } else {
          rms_norm(kContext, x.view, w, kEps, y.view);
          rms_norm_backward(kContext, g.view, x.view, w, kEps, dx.view, dw.view);
          rms_norm_direction(kContext, g.view, x.view, kEps, direction.view);
        }
        // A row of one centred element is all rounding error over sqrt(eps).
        const double scale = n == 1 && centred ? 1 / kEps : n < 16 ? 100 : 4;  // few elements: a small variance magnifies
        testing::expect_close(y.view, want.y, tolerance(dtype), scale);
        testing::expect_close(dx.view, want.dx, tolerance(dtype), scale / (n == 1 ? kEps : 1));
        testing::expect_close(dw.view, want.dw, tolerance(statistics), scale * (std::sqrt(static_cast<double>(rows)) + 1));
        if (!parameters) {
          EXPECT_EQ(testing::values(direction.view), testing::values(dx.view));
        }
        if (HasFailure()) return;
      }
    }
  }
}

TEST(NormThreads, ResultsDoNotDependOnTheirNumber) {
  const Buffer x = testing::random_normal({5000, 100}, DType::float32), g = testing::random_normal({5000, 100}, DType::float32);
  const Buffer weight = testing::random_normal({100}, DType::float32);
  testing::expect_same_for_thread_counts([&] {
    Buffer dx = testing::poisoned({5000, 100}, DType::float32), dw = testing::poisoned({100}, DType::float32),
           db = testing::poisoned({100}, DType::float32);
    layer_norm_backward(kContext, g.view, x.view, weight.view, kEps, dx.view, dw.view, db.view);
    return testing::bytes(dx, dw, db);
  });
}

/// The spread of rows far from zero has the digits that their elements have.
TEST(NormOfFarRows, IsAsRightAsTheElementsAre) {
  for (const auto& [dtype, mean] : {std::pair(DType::float32, 30000.0), std::pair(DType::float64, 1e12)}) {
    const int64_t n = 768;
    const Buffer x = testing::random_normal({3, n}, dtype), g = testing::random_normal({3, n}, dtype);
    for (int64_t i = 0; i < 3 * n; ++i) testing::store(x.view.data, dtype, i, testing::load(x.view.data, dtype, i) + mean);
    Values rest = testing::values(x.view);  // exact
    for (double& value : rest) value -= mean;
    const Values ones(static_cast<size_t>(n), 1.0), zeros(static_cast<size_t>(n), 0.0);
    const Naive want = naive(true, 3, n, rest, testing::values(g.view), ones, zeros);
    const Buffer y = testing::poisoned({3, n}, dtype), dx = testing::poisoned({3, n}, dtype), dw = testing::poisoned({n}, dtype),
                 db = testing::poisoned({n}, dtype);
    layer_norm(kContext, x.view, View{}, View{}, kEps, y.view);
    layer_norm_backward(kContext, g.view, x.view, View{}, kEps, dx.view, dw.view, db.view);
    testing::expect_close(y.view, want.y, tolerance(dtype), 4);
    testing::expect_close(dx.view, want.dx, tolerance(dtype), 4);
    testing::expect_close(dw.view, want.dw, tolerance(dtype), 4);
  }
}

TEST(NormOfLargeRows, IsRightWhereSquaresAreNoFloats) {
  Buffer x({1, 4}, DType::float32), y = testing::poisoned({1, 4}, DType::float32);
  const float values[] = {1e20f, -1e20f, 1e20f, -1e20f};
  std::copy_n(values, 4, x.view.ptr<float>());
  rms_norm(kContext, x.view, View{}, 1e-6, y.view);
  testing::expect_close(y.view, {1, -1, 1, -1}, 1e-6);
  layer_norm(kContext, x.view, View{}, View{}, 1e-6, y.view);
  testing::expect_close(y.view, {1, -1, 1, -1}, 1e-6);
  x.view.ptr<float>()[1] = 1e20f;
  layer_norm(kContext, x.view, View{}, View{}, 1e-6, y.view);
  testing::expect_close(y.view, {std::sqrt(1.0 / 3), std::sqrt(1.0 / 3), std::sqrt(1.0 / 3), -std::sqrt(3.0)}, 1e-6);
}

}  // namespace
}  // namespace deckle::kernels::cpu
