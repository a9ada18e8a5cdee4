// What a public function costs beside the op below it, on tensors of 8 elements: nanoseconds per call, one JSON line per op.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "deckle/deckle.h"
#include "deckle/ops/generated/pointwise.h"

namespace {

using namespace deckle;

constexpr int kCalls = 2000, kRounds = 301;

double nanoseconds_per_call(const std::function<void()>& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - begin;
  return taken.count() / kCalls;
}

/// The same calls in four ways, in turns; medians.
template <typename Into, typename Raw, typename Public>
void measure(const char* op, const Into& into, const Raw& raw, const Public& call) {
  const Tensor a = rand({8}), b = rand({8}), out = rand({8});
  // Results, as most operands are: what is recorded are edges to their nodes.
  const Tensor result = rand({8}).requires_grad_() * 1.0, other = rand({8}).requires_grad_() * 1.0;
  const auto repeat = [](const auto& body) {
    return std::function<void()>([&body] {
      for (int i = 0; i < kCalls; ++i) body();
    });
  };
  const auto run_into = [&] { into(out, a, b); };
  const auto run_raw = [&] { (void)raw(a, b); };
  const auto run_plain = [&] { (void)call(a, b); };
  const auto run_recorded = [&] { (void)call(result, other); };
  const std::vector<std::function<void()>> ways = {repeat(run_into), repeat(run_raw), repeat(run_plain), repeat(run_recorded)};
  std::vector<std::vector<double>> times(ways.size());
  for (int round = -20; round < kRounds; ++round) {
    for (size_t way = 0; way < ways.size(); ++way) {
      const double taken = nanoseconds_per_call(ways[way]);
      if (round >= 0) times[way].push_back(taken);
    }
  }
  for (std::vector<double>& values : times) std::nth_element(values.begin(), values.begin() + kRounds / 2, values.end());
  const auto median = [&](size_t way) { return times[way][kRounds / 2]; };
  std::printf("{\"op\": \"%s\", \"kernel into a result\": %.1f, \"raw op\": %.1f, \"public\": %.1f, \"recorded\": %.1f}\n", op,
              median(0), median(1), median(2), median(3));
}

}  // namespace

int main() {
  set_num_threads(1);
  measure(
      "mul", [](const Tensor& out, const Tensor& a, const Tensor& b) { raw::mul_out(out, a, b); },
      [](const Tensor& a, const Tensor& b) { return raw::mul(a, b); },
      [](const Tensor& a, const Tensor& b) { return mul(a, b); });
  measure(
      "add", [](const Tensor& out, const Tensor& a, const Tensor& b) { raw::add_out(out, a, b); },
      [](const Tensor& a, const Tensor& b) { return raw::add(a, b); },
      [](const Tensor& a, const Tensor& b) { return add(a, b); });
  measure(
      "exp", [](const Tensor& out, const Tensor& a, const Tensor&) { raw::exp_out(out, a); },
      [](const Tensor& a, const Tensor&) { return raw::exp(a); }, [](const Tensor& a, const Tensor&) { return exp(a); });
}
