// C++23: brackets take several indices, as in Python.
#include <deckle/deckle.h>
#include <gtest/gtest.h>

#ifndef __cpp_multidimensional_subscript
#error "the compiler was to be asked for C++23"
#endif

namespace deckle {
namespace {

using Values = std::vector<float>;

TEST(Subscripts, OfSeveralIndicesReadAndWrite) {
  const Tensor x = tensor({{1.0f, 2.0f, 3.0f}, {4.0f, 5.0f, 6.0f}});
  EXPECT_EQ((x[1, 2].item()), 6);
  EXPECT_EQ((x[slice(), -1].to_vector<float>()), (Values{3, 6}));
  x[slice(), 0] = 0;
  x[1, slice(1)] = tensor({7.0f, 8.0f});
  EXPECT_EQ(x.to_vector<float>(), (Values{0, 2, 3, 0, 7, 8}));
}

TEST(Subscripts, OfSeveralIndicesHaveGradients) {
  const Tensor x = ones({2, 3}).requires_grad_();
  const Tensor y = x * 1;
  y[slice(), 0] = 0;
  backward({y[slice(), slice(0, 2)].sum()});
  EXPECT_EQ(x.grad().to_vector<float>(), (Values{0, 1, 0, 0, 1, 0}));
}

}  // namespace
}  // namespace deckle
