#include "tests/ops/suite_support.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "deckle/core/tensor_impl.h"
#include "deckle/ops/generated/shape.h"
#include "tests/support/random.h"

namespace deckle::suite {

Tensor converted(const Tensor& tensor, DType dtype) {
  const std::vector<double> values = tensor.to_vector();
  return of_values(tensor.sizes(), dtype, [&](size_t i) { return values[i]; });
}

Tensors mapped(const Tensors& tensors, const std::function<Tensor(const Tensor&)>& f) {
  Tensors result;
  for (const Tensor& tensor : tensors) result.push_back(tensor.defined() ? f(tensor) : tensor);
  return result;
}

Tensors called(const Case& op, const Tensors& tensors) {
  return op.call(op.writes ? mapped(tensors, [](const Tensor& tensor) { return clone(tensor); }) : tensors);
}

void expect_values(const Tensor& got, const Tensor& expected, double tolerance, const std::string& what, double least) {
  ASSERT_TRUE(got.defined() && expected.defined()) << what;
  ASSERT_EQ(to_string(got.sizes()), to_string(expected.sizes())) << what;
  const std::vector<double> a = got.to_vector(), b = expected.to_vector();
  double scale = least;
  for (const double value : b) {
    if (std::isfinite(value)) scale = std::max(scale, std::abs(value));
  }
  // Half of float16's smallest number, for results below those that it holds to their last place.
  const double least_half = got.dtype() == DType::float16 ? 0x1p-25 : 0;
  const double bound = is_floating(expected.dtype()) ? tolerance * scale + least_half : 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if ((std::isnan(a[i]) && std::isnan(b[i])) || a[i] == b[i]) continue;
    ASSERT_LE(std::abs(a[i] - b[i]), bound) << what << ": element " << i << " is " << a[i] << ", expected " << b[i];
  }
}

void expect_near(const Tensor& got, const Tensor& expected, double tolerance, const std::string& what) {
  expect_values(got, expected, tolerance, what);
  EXPECT_EQ(name(got.dtype()), name(expected.dtype())) << what;
}

void expect_near(const Tensors& got, const Tensors& expected, double tolerance, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) expect_near(got[i], expected[i], tolerance, what);
}

// Drawn numbers keep clear of what functions have kinks at, which finite differences must not step over: of literals, of each
// other, and of what differs from another by a literal. Each number has a residue (j + 1/4) / kResidues of its own behind the
// point, so that neither it, nor the sum or difference of two, is a multiple of 1 / kResidues.
constexpr size_t kResidues = 4000;

Random::Random() : residues_(kResidues) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  const std::string name = std::string(test->test_suite_name()) + test->name();
  engine_.seed(testing::seed() ^ std::hash<std::string>()(name));
  std::iota(residues_.begin(), residues_.end(), 0);
  std::shuffle(residues_.begin(), residues_.end(), engine_);
}

double Random::residue() { return (residues_[next_++ % kResidues] + 0.25) / kResidues; }

Tensor Random::normal(Ints sizes) {
  std::normal_distribution<double> distribution;
  return of_values(sizes, DType::float64, [&](size_t) { return std::floor(distribution(engine_)) + residue(); });
}

Tensor Random::uniform(Ints sizes, double low, double high) {
  return of_values(sizes, DType::float64, [&](size_t) { return low + (high - low) * residue(); });
}

Tensor Random::integers(Ints sizes, int64_t low, int64_t high, DType dtype) {
  std::uniform_int_distribution<int64_t> distribution(low, high - 1);
  return of_values(sizes, dtype, [&](size_t) { return static_cast<double>(distribution(engine_)); });
}

Tensor Random::values(Ints sizes, const std::vector<double>& values, DType dtype) {
  return of_values(sizes, dtype, [&](size_t i) { return values[i]; });
}

}  // namespace deckle::suite
