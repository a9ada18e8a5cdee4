// The memory of attention and its derivatives is linear in the length: any [M, N] array would be detected.

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "deckle/attention/attention.h"
#include "deckle/core/factory_device.h"
#include "deckle/functional/transforms.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"
#include "tests/support/sanitizers.h"

namespace deckle {
namespace {

using testing::random_tensor;

/// Largest resident size in kB of a process that runs `body`.
template <typename Body>
int64_t peak_of(Body&& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  int status = 0;
  rusage usage{};
  EXPECT_EQ(wait4(child, &status, 0, &usage), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return usage.ru_maxrss;
}

/// Result, gradient, tangent, Hessian-vector product, double backward and forward over forward of `length` tokens.
void run_every_pass(int64_t length) {
  const auto draw = [&] { return random_tensor({1, length, 1, 8}, DType::float32); };
  const Tensor x = draw(), t = draw(), slopes = random_tensor({1}, DType::float32),
               bias = random_tensor({1, 1, 1, length}, DType::float32);
  const NestedTensor ids = NestedTensor::from_lengths(zeros_raw({length}, DType::int64, {}), {length});
  const AttentionOptions options{.mask = masks::causal() && (masks::documents(ids) || !masks::window(5, 5)),
                                 .bias = bias,
                                 .slopes = slopes,
                                 .soft_cap = 9,
                                 .dropout = 0.1};
  const auto f = [&](const Tensor& q) { return attention(q, x, x, options); };
  hvp([&](const Tensor& q) { return sum(square(f(q))); }, x, t);
  jvp([&](const Tensor& q) { return jvp(f, q, t).second; }, x, t);
  grad([&](const Tensor& q) { return sum(square(grad([&](const Tensor& y) { return sum(square(f(y))); }, q))); }, x);
}

TEST(AttentionMemory, IsLinearInTheLength) {
  if (testing::kSanitized) GTEST_SKIP() << "the sanitizer's memory would be measured";
  if (factory_device().is_cuda()) GTEST_SKIP() << "a child of fork has no GPU";
  const int64_t base = peak_of([] { run_every_pass(64); });
  const int64_t at_1k = peak_of([] { run_every_pass(1024); }) - base, at_4k = peak_of([] { run_every_pass(4096); }) - base;
  std::cout << "beyond " << base << " kB: " << at_1k << " kB at 1,024 tokens, " << at_4k << " kB at 4,096\n";
  // One [4096, 4096] array of float32 has 65,536 kB, one of bytes 16,384.
  EXPECT_LT(at_4k, 12288);
  EXPECT_LT(at_4k, 8 * std::max<int64_t>(at_1k, 1024));
}

TEST(AttentionMemory, TheMeasureSeesASquareArray) {
  if (testing::kSanitized) GTEST_SKIP() << "the sanitizer's memory would be measured";
  if (factory_device().is_cuda()) GTEST_SKIP() << "a child of fork has no GPU";
  const int64_t base = peak_of([] {});
  EXPECT_GT(peak_of([] { random_tensor({8192, 8192 / 4}, DType::float32); }) - base, 60000);
}

}  // namespace
}  // namespace deckle
