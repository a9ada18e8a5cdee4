// Reductions of nested tensors over every set of dims, against a plain loop over all elements.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "deckle/nested/generated/pointwise.h"
#include "deckle/nested/generated/reduce.h"
#include "deckle/nested/generated/shape.h"
#include "deckle/nested/operators.h"
#include "deckle/nested/support.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "tests/nested/support.h"

namespace deckle {
namespace {

using namespace testing;
using Place = std::vector<int64_t>;
using Values = std::vector<double>;

std::vector<NestedTensor> batches() {
  return {random_nested({3, 0, 5, 1}, 1, {2, 3}), random_nested({0, 0}, 1, {2}), random_nested({4, 4, 2}, 1, {}),
          random_nested({2, 3, 0, 4, 3, 1, 1, 1}, 2, {2})};
}

/// body(place, value) for every element; a place is (batch, ragged dims, regular dims).
template <typename Body>
void for_elements(const NestedTensor& x, Body body) {
  for (int64_t b = 0; b < x.components(); ++b) {
    const Tensor component = x[b];
    const Values values = component.to_vector();
    for (size_t i = 0; i < values.size(); ++i) {
      Place place(static_cast<size_t>(component.dim()) + 1, b);
      int64_t rest = static_cast<int64_t>(i);
      for (int64_t dim = component.dim() - 1; dim >= 0; --dim) {
        place[static_cast<size_t>(dim) + 1] = rest % component.size(dim);
        rest /= component.size(dim);
      }
      body(place, values[i]);
    }
  }
}

std::string reduced_shape(const NestedTensor& x, const std::vector<int64_t>& dims, bool keepdim) {
  const auto over = [&](int64_t dim) { return std::find(dims.begin(), dims.end(), dim) != dims.end(); };
  bool ragged_left = false;
  for (int64_t dim = 1; dim <= x.ragged_dims(); ++dim) ragged_left = ragged_left || (!over(dim) && !over(0));
  std::string text;
  const auto append = [&](const std::string& size) { text += (text.empty() ? "" : ", ") + size; };
  for (int64_t dim = 0; dim < x.dim(); ++dim) {
    const bool ragged = dim >= 1 && dim <= x.ragged_dims();
    const int d = static_cast<int>(dim) - 1;
    if (over(dim) && keepdim) append("1");
    if (over(dim)) continue;
    if (!ragged)
      append(std::to_string(x.size(dim)));
    else if (ragged_left && x.ragged()->min_size(d) != x.ragged()->max_size(d))
      append(fmt::format("{}..{}", x.ragged()->min_size(d), x.ragged()->max_size(d)));
    else
      append(std::to_string(x.ragged()->max_size(d)));
  }
  return "[" + text + "]";
}

std::vector<std::vector<int64_t>> dim_sets(const NestedTensor& x) {
  std::vector<std::vector<int64_t>> sets;
  for (unsigned mask = 1; mask < 1u << x.dim(); ++mask) {
    sets.emplace_back();
    for (int64_t dim = 0; dim < x.dim(); ++dim) {
      if (mask >> dim & 1) sets.back().push_back(dim);
    }
  }
  return sets;
}

/// The op over every set of dims, with and without keepdim, equals `naive` of the elements that share the other places.
template <typename Op, typename Naive>
void expect_reduces(Op op, Naive naive) {
  for (const NestedTensor& x : batches()) {
    for (const std::vector<int64_t>& dims : dim_sets(x)) {
      std::map<Place, Values> groups;
      for_elements(x, [&](Place place, double value) {
        for (const int64_t dim : dims) place[static_cast<size_t>(dim)] = 0;
        groups[place].push_back(value);
      });
      SCOPED_TRACE(fmt::format("{} over [{}]", nested::shape_string(x), fmt::join(dims, ", ")));
      const NestedTensor got = op(x, dims, true);
      EXPECT_EQ(nested::shape_string(got), reduced_shape(x, dims, true));
      for_elements(got, [&](const Place& place, double value) {
        const double want = naive(groups[place]);
        if (std::isnan(want))
          EXPECT_TRUE(std::isnan(value));
        else if (std::isinf(want))
          EXPECT_EQ(value, want);
        else
          EXPECT_NEAR(value, want, 1e-10 * std::max(1.0, std::abs(want)));
      });
      const NestedTensor without = op(x, dims, false);
      EXPECT_EQ(nested::shape_string(without), reduced_shape(x, dims, false));
      expect_equal(without.values().reshape({-1}), got.values().reshape({-1}));
      std::vector<int64_t> negative = dims;
      for (int64_t& dim : negative) dim -= x.dim();
      expect_equal(op(x, negative, false).values(), without.values());
    }
  }
}

double total(const Values& x) {
  double sum = 0;
  for (const double value : x) sum += value;
  return sum;
}

double squares(const Values& x) {
  const double mean = total(x) / static_cast<double>(x.size());
  double sum = 0;
  for (const double value : x) sum += (value - mean) * (value - mean);
  return sum;
}

#define OVER(op) [](const NestedTensor& x, const std::vector<int64_t>& dims, bool keepdim) { return op; }

TEST(NestedReductions, SumsMeansAndProducts) {
  expect_reduces(OVER(sum(x, dims, keepdim)), total);
  expect_reduces(OVER(mean(x, dims, keepdim)), [](const Values& x) { return total(x) / static_cast<double>(x.size()); });
  expect_reduces(OVER(prod(x, dims, keepdim)), [](const Values& x) {
    double product = 1;
    for (const double value : x) product *= value;
    return product;
  });
}

TEST(NestedReductions, SpreadAndNorm) {
  expect_reduces(OVER(var(x, dims, {.correction = 0, .keepdim = keepdim})),
                 [](const Values& x) { return squares(x) / static_cast<double>(x.size()); });
  expect_reduces(OVER(var(x, dims, {.keepdim = keepdim})),
                 [](const Values& x) { return x.empty() ? NAN : squares(x) / (static_cast<double>(x.size()) - 1); });
  expect_reduces(OVER(std(x, dims, {.correction = 0, .keepdim = keepdim})),
                 [](const Values& x) { return std::sqrt(squares(x) / static_cast<double>(x.size())); });
  expect_reduces(OVER(norm(x, dims, keepdim)), [](const Values& x) {
    double sum = 0;
    for (const double value : x) sum += value * value;
    return std::sqrt(sum);
  });
}

TEST(NestedReductions, Extrema) {
  const auto extremum = [](double sign) {
    return [sign](const Values& x) {
      double best = -INFINITY;
      for (const double value : x) best = std::max(best, sign * value);
      return sign * best;
    };
  };
  // Over regular dims alone the op is that of the values, which has nothing to say of rows of no elements.
  expect_reduces(OVER(amax(x, dims, keepdim)), extremum(1));
  expect_reduces(OVER(amin(x, dims, keepdim)), extremum(-1));
}

TEST(NestedReductions, Truth) {
  expect_reduces(OVER(to(any(gt(x, 0.5), dims, keepdim), DType::float64)), [](const Values& x) {
    return std::any_of(x.begin(), x.end(), [](double value) { return value > 0.5; }) ? 1.0 : 0.0;
  });
  expect_reduces(OVER(to(all(gt(x, -0.5), dims, keepdim), DType::float64)), [](const Values& x) {
    return std::all_of(x.begin(), x.end(), [](double value) { return value > -0.5; }) ? 1.0 : 0.0;
  });
}

#undef OVER

/// Ops over one dim that say where: value and place of the first best.
TEST(NestedReductions, PlacesAreCountedAlongTheDim) {
  for (const NestedTensor& x : batches()) {
    for (int64_t dim = 0; dim < x.dim(); ++dim) {
      if (x.values().numel() == 0 && dim > x.ragged_dims()) continue;
      SCOPED_TRACE(fmt::format("{} over {}", nested::shape_string(x), dim));
      std::map<Place, std::pair<double, int64_t>> largest, smallest;
      for_elements(x, [&](Place place, double value) {
        const int64_t at = place[static_cast<size_t>(dim)];
        place[static_cast<size_t>(dim)] = 0;
        const auto top = largest.try_emplace(place, value, at).first, bottom = smallest.try_emplace(place, value, at).first;
        if (value > top->second.first) top->second = {value, at};
        if (value < bottom->second.first) bottom->second = {value, at};
      });
      const auto expect_places = [&](const std::tuple<NestedTensor, NestedTensor>& got, const NestedTensor& alone, auto& want,
                                     double nothing) {
        for_elements(std::get<0>(got), [&](const Place& place, double value) {
          EXPECT_EQ(value, want.contains(place) ? want[place].first : nothing);
        });
        for_elements(std::get<1>(got), [&](const Place& place, double at) {
          EXPECT_EQ(at, want.contains(place) ? static_cast<double>(want[place].second) : -1.0);
        });
        expect_equal(alone.values(), std::get<1>(got).values());
      };
      expect_places(max(x, dim, true), argmax(x, dim, true), largest, -INFINITY);
      expect_places(min(x, dim, true), argmin(x, dim, true), smallest, INFINITY);
      const NestedTensor lse = logsumexp(x, dim, true);
      std::map<Place, double> sums;
      for_elements(x, [&](Place place, double value) {
        place[static_cast<size_t>(dim)] = 0;
        sums[place] += std::exp(value);
      });
      for_elements(lse, [&](const Place& place, double value) {
        if (sums[place] == 0)
          EXPECT_EQ(value, -INFINITY);
        else
          EXPECT_NEAR(value, std::log(sums[place]), 1e-10);
      });
    }
  }
}

TEST(NestedReductions, AllDimsAtOnceAreADenseNumber) {
  const NestedTensor x = random_nested({3, 0, 2}, 1, {2});
  expect_close(sum(x), sum(x, {}).dense(), 1e-12, 1e-12);
  expect_close(sum(x), sum(x, {0, 1, 2}).dense(), 1e-12, 1e-12);
  expect_equal(max(x), amax(x.values()));
  expect_equal(min(x), amin(x, {0, 1, 2}).dense());
}

TEST(NestedReductions, HaveAllDerivativesOverEveryKindOfDim) {
  const NestedTensor one = random_nested({2, 0, 3}, 1, {2}), two = random_nested({2, 2, 0, 3, 1, 2}, 2, {});
  for (const NestedTensor& x : {one, two}) {
    for (const std::vector<int64_t>& dims : dim_sets(x)) {
      SCOPED_TRACE(fmt::format("{} over [{}]", nested::shape_string(x), fmt::join(dims, ", ")));
      expect_gradients([&](const NestedTensor& a) { return sum(a * a, dims); }, x);
      expect_gradients([&](const NestedTensor& a) { return prod(a, dims); }, x);
      expect_gradients([&](const NestedTensor& a) { return norm(a, dims); }, x);
    }
  }
  const NestedTensor x = random_nested({2, 4, 3}, 1, {2});
  for (const std::vector<int64_t>& dims : dim_sets(x)) {
    expect_gradients([&](const NestedTensor& a) { return amax(a, dims); }, x);
    expect_gradients([&](const NestedTensor& a) { return amin(a, dims); }, x);
    if (dims == std::vector<int64_t>{0}) continue;  // positions that one component has alone have no variance
    expect_gradients([&](const NestedTensor& a) { return var(a, dims); }, x);
    expect_gradients([&](const NestedTensor& a) { return std(a, dims); }, x);
    expect_gradients([&](const NestedTensor& a) { return mean(a * a, dims); }, x);
  }
}

TEST(NestedReductions, ProductsAreRightAtZeros) {
  const NestedTensor x = NestedTensor::from_lengths(testing::tensor_of({2, 0, 3, 0, 0, 4, 1.5}), {3, 0, 3, 1});
  expect_gradients([](const NestedTensor& a) { return prod(a, {1}); }, x);
}

TEST(NestedReductions, OfIntegers) {
  const NestedTensor x = gt(NestedTensor::from_lengths(testing::tensor_of({2, -1, 3, 4}), {3, 0, 1}), 0.0);
  EXPECT_EQ(sum(x, {1}).dtype(), DType::int64);
  EXPECT_EQ(sum(x, {1}).dense().to_vector(), (Values{2, 0, 1}));
  EXPECT_EQ(all(x, {1}).dense().to_vector(), (Values{0, 1, 1}));
  EXPECT_EQ(prod(x, {1}).dense().to_vector(), (Values{0, 1, 1}));
}

TEST(NestedReductions, SayWhatIsWrong) {
  const NestedTensor x = random_nested({2, 0, 3}, 1, {2});
  expect_error([&] { sum(x, {3}); }, "sum: dim 3 is out of range for shape [3, 0..3, 2] (expected -3..2)");
  expect_error([&] { sum(x, {1, -2}); }, "sum: dim -2 stands twice in [1, -2] (expected different dims of shape [3, 0..3, 2])");
  expect_error([&] { mean(to(x, DType::int64), {1}); }, "mean: self is int64 (expected a floating dtype)");
  expect_error([&] { softmax(to(x, DType::int64), 1); }, "softmax: self is int64 (expected a floating dtype)");
}

}  // namespace
}  // namespace deckle
