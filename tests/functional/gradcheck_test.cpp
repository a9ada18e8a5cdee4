#include "deckle/functional/gradcheck.h"

#include "deckle/ops/generated/pointwise.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace deckle {
namespace {

TEST(Gradcheck, AFunctionThatIsNotFiniteIsToldApart) {
  const Tensor x = testing::tensor_of({0.5, 2e-7});  // the step leaves the domain of log at the second element
  testing::expect_error([&] { gradcheck([](const Tensor& y) { return log(y); }, x); }, "not finite");
  const Tensor large = testing::tensor_of({710.0});
  testing::expect_error([&] { forward_gradcheck([](const Tensor& y) { return exp(y); }, large); }, "not finite");
}

}  // namespace
}  // namespace deckle
