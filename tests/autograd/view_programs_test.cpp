// Random programs of views and in-place writes on one tensor, compared with central differences in every mode.

#include <random>

#include "deckle/core/tensor_impl.h"
#include "deckle/functional/gradcheck.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"
#include "tests/support/sanitizers.h"

namespace deckle {
namespace {

using testing::random_tensor;
using Tensors = std::vector<Tensor>;

/// One program: the same steps at every call, whose values stay small enough for central differences.
/// x[0], [3, 4], is what the base starts from; x[1], [2], takes part in the writes.
class Program {
 public:
  explicit Program(uint64_t seed) : seed_(seed) {}

  Tensors operator()(const Tensors& x) {
    steps_.seed(seed_);
    views_ = {base(x[0])};
    Tensors results;
    for (int step = 0; step < 7; ++step) {
      const Tensor target = views_[choose(views_.size())];
      switch (choose(4)) {
        case 0:
          write(target, x[1]);
          break;
        case 1:
          results.push_back(sum(square(target.clone()) * x[1].select(0, 1)));
          break;  // a copy: the view is written later
        default:
          views_.push_back(view_of(target));
      }
    }
    // At last an op that saves its result, which nothing may overwrite.
    const Tensor last = views_[choose(views_.size())];
    choose(2) == 0 ? tanh_(last) : exp_(last.mul_(0.25));
    for (const Tensor& view : views_) results.push_back(sum(view * view * view));
    return results;
  }

 private:
  size_t choose(size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(steps_); }

  /// A result, or a constant that is written: contiguous, transposed, or with gaps.
  Tensor base(const Tensor& start) {
    Tensor memory;
    switch (choose(4)) {
      case 0:
        return start * 1.0;
      case 1:
        memory = zeros({3, 4}, DType::float64);
        break;
      case 2:
        memory = zeros({4, 3}, DType::float64).transpose(0, 1).detach();
        break;
      default:
        memory = zeros({6, 9}, DType::float64).slice(0, 1, 6, 2).slice(1, 0, 8, 2).detach();
    }
    memory.copy_(start);
    return memory;
  }

  Tensor view_of(const Tensor& x) {
    if (x.dim() == 0) return x.unsqueeze(0);
    const auto dim = static_cast<int64_t>(choose(static_cast<size_t>(x.dim())));
    switch (choose(5)) {
      case 0:
        return x.select(dim, 0);
      case 1:
        return x.slice(dim, 0, x.size(dim), 2);
      case 2:
        return x.slice(dim, x.size(dim) > 1 ? 1 : 0, x.size(dim));
      case 3:
        return x.transpose(0, dim);
      default:
        return x.unsqueeze(dim);
    }
  }

  void write(const Tensor& target, const Tensor& factors) {
    const Tensor before = target.clone();
    switch (choose(4)) {
      case 0:
        target.copy_(tanh(before) * factors.select(0, 1));
        break;
      case 1:
        target.mul_(sum(factors) * 0.1 + 1.0);
        break;
      case 2:
        target.add_(tanh(before) * factors.select(0, 0));
        break;
      default:
        target.copy_(exp(tanh(before)) * 0.4);
    }
  }

  uint64_t seed_;
  std::mt19937_64 steps_;
  Tensors views_;
};

TEST(ViewPrograms, HaveTheRightDerivativesInEveryMode) {
  std::mt19937_64 seeds(testing::seed());
  const GradcheckOptions options{.absolute = 1e-3, .relative = 5e-3};
  for (int round = 0; round < testing::repetitions(100); ++round) {
    const uint64_t seed = seeds();
    SCOPED_TRACE(seed);
    Program program(seed);
    const Tensors inputs = {tanh(random_tensor({3, 4})) * 0.8,
                            tanh(random_tensor({2})) * 0.8};  // small, as exponentials of them are cubed
    ASSERT_NO_THROW(gradcheck(program, inputs, options));
    ASSERT_NO_THROW(forward_gradcheck(program, inputs, options));
    ASSERT_NO_THROW(gradgradcheck(program, inputs, options));
    ASSERT_NO_THROW(forward_gradgradcheck(program, inputs, options));
  }
}

}  // namespace
}  // namespace deckle
