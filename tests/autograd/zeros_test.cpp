// Zeros stand for gradients and tangents that are not there: made where a formula reads them, once, and not elsewhere.

#include "deckle/autograd/node.h"
#include "deckle/core/allocator.h"
#include "deckle/functional/transforms.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/matmul.h"
#include "deckle/ops/generated/position.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace deckle {
namespace {

struct TwoOutputs final : autograd::Node {
  std::string_view name() const override { return "two"; }
  void backward(const autograd::Gradients&, autograd::GradientSink&) override {}
};

/// Bytes that `call` held at once beyond what there was.
template <typename Call>
int64_t peak_of(const Call& call) {
  const Device device = factory_device();
  reset_peak_memory(device);
  const int64_t before = memory_stats(device).in_use;
  call();
  return memory_stats(device).peak - before;
}

constexpr int64_t kSize = 1 << 20;
constexpr int64_t kBytes = 4 * kSize;

TEST(Zeros, OfAGradientAreMadeWhenItIsReadAndOnce) {
  const auto node = std::make_shared<TwoOutputs>();
  const Tensor like = zeros({kSize});
  node->add_output(like);
  node->add_output(like);
  const std::vector<Tensor> arrived = {Tensor(), like};
  const autograd::Gradients gradients(arrived, *node);
  EXPECT_EQ(peak_of([&] {
              EXPECT_FALSE(gradients.defined(0));
              EXPECT_TRUE(gradients[1].is_same(like));
            }),
            0);
  Tensor first, second;
  EXPECT_EQ(peak_of([&] {
              first = gradients[0];
              second = gradients[0];
            }),
            kBytes);
  EXPECT_TRUE(first.is_same(second));
}

TEST(Zeros, OfATangentAreNotMadeInABranchThatIsNotTaken) {
  const Tensor row = testing::random_tensor({1, 1024}, DType::float32), matrix = ones({1024, 1024});
  const auto along_row = [&] { jvp([&](const Tensor& x) { return mm(x, matrix); }, row, row); };
  EXPECT_LT(peak_of(along_row), kBytes / 4) << "zeros for the matrix, whose products are not computed";
  const Tensor self = testing::random_tensor({1, 2, 16}, DType::float32), positions = zeros({1}, DType::int64);
  const Tensor cosines = ones({kSize / 8, 8}), sines = ones({kSize / 8, 8});
  const auto along_self = [&] { jvp([&](const Tensor& x) { return rotary(x, positions, cosines, sines); }, self, self); };
  EXPECT_LT(peak_of(along_self), kBytes / 4) << "zeros for the tables";
}

}  // namespace
}  // namespace deckle
