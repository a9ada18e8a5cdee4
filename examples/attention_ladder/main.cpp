// Times the versions of versions.h and the library on one head, after checking that they agree.     usage: attention_ladder [N [D]]
#include <deckle/deckle.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <utility>

#include <fmt/format.h>

#include "versions.h"

namespace dk = deckle;

namespace {

/// The shortest of three runs in seconds of processor time: one thread runs, and others may use the machine.
template <typename F>
double seconds(F&& run) {
  double best = 1e30;
  for (int repeat = 0; repeat < 3; ++repeat) {
    const std::clock_t start = std::clock();
    run();
    best = std::min(best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  return best;
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
  dk::Tensor expected = dk::zeros({1, n, 1, d}), out = dk::zeros({1, n, 1, d});
  const float scale = 1 / std::sqrt(static_cast<float>(d));
  const double flops = 4.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(d);
  naive(q.data<float>(), k.data<float>(), v.data<float>(), expected.data<float>(), n, d, scale);

  bool agree = true;
  const auto report = [&](const char* name, const dk::Tensor& got, double time) {
    double worst = 0;
    for (int64_t i = 0; i < n * d; ++i) worst = std::max(worst, std::abs(static_cast<double>(got.data<float>()[i]) - expected.data<float>()[i]));
    agree &= worst < 1e-4;
    fmt::print("{:<12} {:9.2f} ms {:8.2f} GF/s   largest difference {:.1e}\n", name, 1e3 * time, flops / time / 1e9, worst);
  };
  fmt::print("one head, N = {}, D = {}, one thread\n", n, d);
  for (const auto& [name, version] : {std::pair<const char*, Attention>{"naive", naive}, {"online", online}, {"tiled", tiled}, {"transposed", transposed}, {"blocked", blocked}}) {
    const double time = seconds([&] { version(q.data<float>(), k.data<float>(), v.data<float>(), out.data<float>(), n, d, scale); });
    report(name, out, time);
  }
  dk::Tensor fused;
  const double time = seconds([&] { fused = dk::attention(q, k, v); });
  report("deckle", fused, time);
  return agree ? 0 : 1;
}
