#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "deckle/base/parallel.h"
#include "deckle/kernels/args/context.h"
#include "tests/kernels/cpu/support/buffer.h"

namespace deckle::kernels::cpu {
void rms_norm_rows(const CpuContext&, const View& input, const View& weight, double eps, const View& out, const View& rstd);
void rms_norm_backward(const CpuContext&, const View& gradient, const View& input, const View& weight, const View& rstd, double eps,
                       const View& input_gradient, const View& weight_gradient);
void layer_norm_rows(const CpuContext&, const View& input, const View& weight, const View& bias, double eps, const View& out, const View& mean,
                     const View& rstd);
void layer_norm_backward(const CpuContext&, const View& gradient, const View& input, const View& weight, const View& mean, const View& rstd,
                         double eps, const View& input_gradient, const View& weight_gradient, const View& bias_gradient);
}  // namespace deckle::kernels::cpu

namespace deckle {
namespace {

using testing::Buffer;
using testing::expect_close;
using testing::poisoned;
using testing::random_normal;
using testing::values;

constexpr double kEps = 1e-3;

/// Rows by the definitions in double: centred (layer norm) or not.
struct Naive {
  std::vector<double> out, dx, dw, db;

  Naive(int64_t rows, int64_t n, bool centred, const std::vector<double>& x, const std::vector<double>& w, const std::vector<double>& b,
        const std::vector<double>& g)
      : dw(static_cast<size_t>(n), 0), db(static_cast<size_t>(n), 0) {
    for (int64_t row = 0; row < rows; ++row) {
      const double *xs = x.data() + row * n, *gs = g.data() + row * n;
      double mean = 0, squares = 0, u_mean = 0, projection = 0;
      for (int64_t i = 0; i < n; ++i) mean += centred ? xs[i] / static_cast<double>(n) : 0;
      for (int64_t i = 0; i < n; ++i) squares += (xs[i] - mean) * (xs[i] - mean) / static_cast<double>(n);
      const double r = 1 / std::sqrt(squares + kEps);
      const auto weight = [&](int64_t i) { return w.empty() ? 1.0 : w[static_cast<size_t>(i)]; };
      for (int64_t i = 0; i < n; ++i) {
        const double h = r * (xs[i] - mean);
        out.push_back(h * weight(i) + (b.empty() ? 0.0 : b[static_cast<size_t>(i)]));
        u_mean += centred ? gs[i] * weight(i) / static_cast<double>(n) : 0;
        projection += gs[i] * weight(i) * h / static_cast<double>(n);
        dw[static_cast<size_t>(i)] += gs[i] * h;
        db[static_cast<size_t>(i)] += gs[i];
      }
      for (int64_t i = 0; i < n; ++i) dx.push_back(r * (gs[i] * weight(i) - u_mean - r * (xs[i] - mean) * projection));
    }
  }
};

TEST(Norm, EqualsTheDefinitionInEveryFloatingType) {
  for (const DType dtype : {DType::float64, DType::float32, DType::bfloat16, DType::float16}) {
    const DType statistics = dtype == DType::float64 ? DType::float64 : DType::float32;
    const double tolerance = dtype == DType::float64 ? 1e-12 : dtype == DType::float32 ? 5e-6 : dtype == DType::float16 ? 5e-3 : 4e-2;
    for (const auto& [rows, n] : {std::pair<int64_t, int64_t>{1, 1}, {3, 7}, {130, 33}, {2, 1500}, {0, 5}}) {
      for (const bool given : {true, false}) {
        SCOPED_TRACE(fmt::format("{} [{}, {}] weight {}", name(dtype), rows, n, given));
        const Buffer x = random_normal({rows, n}, dtype), g = random_normal({rows, n}, dtype);
        const Buffer w = random_normal({n}, dtype), b = random_normal({n}, dtype);
        const View none;
        const std::vector<double> ws = given ? values(w.view) : std::vector<double>{}, bs = given ? values(b.view) : std::vector<double>{};

        const Naive rms(rows, n, false, values(x.view), ws, {}, values(g.view));
        const Buffer out = poisoned({rows, n}, dtype), rstd = poisoned({rows}, statistics), mean = poisoned({rows}, statistics);
        kernels::cpu::rms_norm_rows({}, x.view, given ? w.view : none, kEps, out.view, rstd.view);
        expect_close(out.view, rms.out, tolerance);
        const Buffer dx = poisoned({rows, n}, dtype), dw = poisoned({n}, dtype), db = poisoned({n}, dtype);
        kernels::cpu::rms_norm_backward({}, g.view, x.view, given ? w.view : none, rstd.view, kEps, dx.view, dw.view);
        expect_close(dx.view, rms.dx, tolerance, 4);
        expect_close(dw.view, rms.dw, tolerance, 20);

        const Naive layer(rows, n, true, values(x.view), ws, bs, values(g.view));
        kernels::cpu::layer_norm_rows({}, x.view, given ? w.view : none, given ? b.view : none, kEps, out.view, mean.view, rstd.view);
        expect_close(out.view, layer.out, tolerance);
        kernels::cpu::layer_norm_backward({}, g.view, x.view, given ? w.view : none, mean.view, rstd.view, kEps, dx.view, dw.view, db.view);
        expect_close(dx.view, layer.dx, tolerance, n == 1 ? 40 : 4);  // one element: everything cancels, times r = 1 / sqrt(eps)
        expect_close(dw.view, layer.dw, tolerance, 20);
        expect_close(db.view, layer.db, tolerance, 20);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Norm, WeightGradientsAreBitEqualForAnyNumberOfThreads) {
  const Buffer x = random_normal({3000, 65}, DType::float32), g = random_normal({3000, 65}, DType::float32), w = random_normal({65}, DType::float32);
  std::vector<unsigned char> first;
  for (const int threads : {1, 2, 3, 8, 16, 32}) {
    set_num_threads(threads);
    const Buffer out = poisoned({3000, 65}, DType::float32), rstd = poisoned({3000}, DType::float32);
    kernels::cpu::rms_norm_rows({}, x.view, w.view, kEps, out.view, rstd.view);
    const Buffer dx = poisoned({3000, 65}, DType::float32), dw = poisoned({65}, DType::float32);
    kernels::cpu::rms_norm_backward({}, g.view, x.view, w.view, rstd.view, kEps, dx.view, dw.view);
    if (first.empty()) first = testing::bytes(dw);
    EXPECT_EQ(testing::bytes(dw), first) << threads << " threads";
  }
  set_num_threads(2);
}

TEST(Norm, ALargeMeanDoesNotSpoilTheVariance) {
  const Buffer x = random_normal({1, 512}, DType::float32);
  for (int i = 0; i < 512; ++i) x.view.ptr<float>()[i] += 1000;
  const Naive want(1, 512, true, values(x.view), {}, {}, values(x.view));
  const Buffer out = poisoned({1, 512}, DType::float32), mean = poisoned({1}, DType::float32), rstd = poisoned({1}, DType::float32);
  kernels::cpu::layer_norm_rows({}, x.view, View{}, View{}, kEps, out.view, mean.view, rstd.view);
  expect_close(out.view, want.out, 2e-4);
}

}  // namespace
}  // namespace deckle
