// Times the versions of versions.h and the library on one head, and compares each with the definition in float64.
//   attention_ladder [N [D]]
#include <deckle/deckle.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "versions.h"

namespace dk = deckle;

namespace {

/// The shortest of three runs in seconds of processor time (one thread runs, and others may use the machine); short calls are
/// repeated.
template <typename F>
double seconds(F&& call) {
  double best = 1e30;
  for (int run = 0; run < 3; ++run) {
    const std::clock_t start = std::clock();
    double spent = 0;
    int calls = 0;
    for (; spent < 0.02; ++calls) call(), spent = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    best = std::min(best, spent / calls);
  }
  return best;
}

/// The definition in float64.
std::vector<double> exact(const float* q, const float* k, const float* v, int64_t n, int64_t d, double scale) {
  std::vector<double> out(n * d, 0.0), p(n);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      p[j] = 0;
      for (int64_t e = 0; e < d; ++e) p[j] += scale * q[i * d + e] * k[j * d + e];
    }
    const double top = *std::max_element(p.begin(), p.end());
    double sum = 0;
    for (double& x : p) sum += x = std::exp(x - top);
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t e = 0; e < d; ++e) out[i * d + e] += p[j] / sum * v[j * d + e];
    }
  }
  return out;
}

/// Largest difference; NaN if there is one.
double largest_error(const float* got, const std::vector<double>& expected) {
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double error = std::abs(got[i] - expected[i]);
    if (!(error <= worst)) worst = error;
    if (std::isnan(worst)) break;
  }
  return worst;
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t n = argc > 1 ? std::atoll(argv[1]) : 1024, d = argc > 2 ? std::atoll(argv[2]) : 64;
  if (n < 1 || d < 1) {
    fmt::print(stderr, "usage: attention_ladder [N [D]]\n");
    return 2;
  }
  dk::set_num_threads(1);
  const dk::Tensor q = dk::randn({1, n, 1, d}), k = dk::randn({1, n, 1, d}), v = dk::randn({1, n, 1, d});
  const dk::Tensor out = dk::zeros({1, n, 1, d});
  const float scale = 1 / std::sqrt(static_cast<float>(d));
  const double flops = 4.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(d);
  const std::vector<double> expected = exact(q.data<float>(), k.data<float>(), v.data<float>(), n, d, scale);

  bool agree = true;
  const auto report = [&](const char* name, const dk::Tensor& got, double time) {
    const double error = largest_error(got.data<float>(), expected);
    agree &= error < 1e-4;
    fmt::print("{:<12} {:9.3f} ms {:8.2f} GF/s   largest error {:.1e}\n", name, 1e3 * time, flops / time / 1e9, error);
  };
  fmt::print("one head, N = {}, D = {}, one thread\n", n, d);
  const std::pair<const char*, Attention> versions[] = {
      {"naive", naive}, {"online", online}, {"tiled", tiled}, {"transposed", transposed}, {"blocked", blocked}};
  for (const auto& version : versions) {
    out.fill_(std::nan(""));
    const double time =
        seconds([&] { version.second(q.data<float>(), k.data<float>(), v.data<float>(), out.data<float>(), n, d, scale); });
    report(version.first, out, time);
  }
  dk::Tensor fused;
  const double time = seconds([&] { fused = dk::attention(q, k, v); });
  report("deckle", fused, time);
  if (!agree) fmt::print(stderr, "attention_ladder: a version is wrong\n");
  return agree ? 0 : 1;
}
