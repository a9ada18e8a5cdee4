// Memory that causal attention takes beyond q, k, v, with its result, gradients, tangents and second derivatives, in kB.
//   attention_cpu_memory TOKENS          one head of width 64, float32; prints one JSON line

#include <fmt/format.h>
#include <sys/resource.h>

#include <cstdlib>

#include "deckle/attention/attention.h"
#include "deckle/functional/transforms.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/random.h"
#include "deckle/ops/generated/reduce.h"

namespace {

int64_t peak_kilobytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace deckle;
  const int64_t tokens = argc > 1 ? std::atoll(argv[1]) : 0;
  if (tokens < 1) {
    fmt::print(stderr, "usage: attention_cpu_memory TOKENS\n");
    return 2;
  }
  const Tensor x = randn({1, tokens, 1, 64}), t = randn({1, tokens, 1, 64});
  const int64_t before = peak_kilobytes();
  const auto loss = [&](const Tensor& q) { return sum(square(attention(q, x, x, {.mask = masks::causal()}))); };
  grad(loss, x);
  const int64_t first = peak_kilobytes();
  hvp(loss, x, t);
  const int64_t second = peak_kilobytes();
  fmt::print("{{\"tokens\": {}, \"first_order_kilobytes\": {}, \"second_order_kilobytes\": {}}}\n", tokens, first - before,
             second - before);
}
