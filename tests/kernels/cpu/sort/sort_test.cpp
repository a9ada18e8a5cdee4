#include <gtest/gtest.h>

#include <numeric>

#include "deckle/kernels/args/context.h"
#include "tests/kernels/cpu/support/buffer.h"

namespace deckle::kernels::cpu {
void sort(const Context&, const View& self, int64_t dim, bool descending, const View& values, const View& indices);
void topk(const Context&, const View& self, int64_t k, int64_t dim, bool largest, const View& values, const View& indices);
void segment_sort(const Context&, const View& self, const RaggedView& ragged, bool descending, const View& values,
                  const View& rows);
void uniform_order(const Context&, const View& keys, const View& order);
}  // namespace deckle::kernels::cpu

namespace deckle {
namespace {

using testing::Buffer;
using testing::poisoned;
using testing::random_integers;
using testing::values;

constexpr DType kAll[] = {DType::bool_,   DType::uint8,    DType::int32,   DType::int64,
                          DType::float16, DType::bfloat16, DType::float32, DType::float64};

TEST(UniformOrder, IsStableForEvenAndUnevenKeys) {
  std::uniform_int_distribution<int64_t> any(0, (int64_t{1} << 53) - 1);
  for (const int64_t n : {0, 1, 2, 3, 100, 2048, 2049, 10000, 16384, 16385, 70001}) {
    for (int kind = 0; kind < 5; ++kind) {
      Buffer keys({n}, DType::float64), order = poisoned({n}, DType::int64);
      std::vector<double> key(static_cast<size_t>(n));
      int64_t last = 0;
      for (size_t i = 0; i < key.size(); ++i) {
        // Some in a row that differ in their last bit, or do not: beyond the first 32, which go into items.
        const int64_t drawn = any(testing::engine()), bits = kind < 4 || i % 3 == 0 ? drawn : last ^ (drawn & 1);
        last = bits;
        key[i] = static_cast<double>(kind % 4 == 0 ? bits                                     // even
                                     : kind == 1   ? bits >> 46 << 46                         // of 128 values
                                     : kind == 2   ? bits >> 30                               // next to 0
                                                   : (int64_t{1} << 53) - 1 - (bits & 1023)) *  // next to 1
                 0x1p-53;
        testing::store(keys.view.data, DType::float64, static_cast<int64_t>(i), key[i]);
      }
      kernels::cpu::uniform_order({}, keys.view, order.view);
      std::vector<int64_t> want(key.size());
      std::iota(want.begin(), want.end(), 0);
      std::stable_sort(want.begin(), want.end(),
                       [&](int64_t a, int64_t b) { return key[static_cast<size_t>(a)] < key[static_cast<size_t>(b)]; });
      for (size_t i = 0; i < want.size(); ++i) ASSERT_EQ(order.view.ptr<int64_t>()[i], want[i]) << n << " " << kind;
    }
  }
}

TEST(Sort, IsStableAlongEveryDimInBothDirections) {
  const int64_t sizes[] = {3, 50, 2};
  for (const DType dtype : kAll) {
    for (int64_t dim = 0; dim < 3; ++dim) {
      for (const bool descending : {false, true}) {
        const Buffer self = random_integers({3, 50, 2}, dtype, 0, 9), sorted = poisoned({3, 50, 2}, dtype),
                     order = poisoned({3, 50, 2}, DType::int64);
        kernels::cpu::sort({}, self.view, dim, descending, sorted.view, order.view);
        const std::vector<double> x = values(self.view), y = values(sorted.view), ix = values(order.view);
        const int64_t stride = self.view.strides[dim];
        for (size_t i = 0; i < x.size(); ++i) {
          const auto position = static_cast<int64_t>(i) / stride % sizes[dim];
          const auto start = static_cast<int64_t>(i) - position * stride;
          ASSERT_EQ(y[i], x[static_cast<size_t>(start + static_cast<int64_t>(ix[i]) * stride)]);
          if (position == 0) continue;
          const size_t previous = i - static_cast<size_t>(stride);
          ASSERT_TRUE(descending ? y[previous] >= y[i] : y[previous] <= y[i]);
          if (y[previous] == y[i]) {
            ASSERT_LT(ix[previous], ix[i]);
          }
        }
      }
    }
  }
}

// Ties, NaN, and orders in which every element is among the first so far.
TEST(Topk, IsTheBeginningOfTheSortedLanes) {
  for (const DType dtype : kAll) {
    for (const bool along_last : {false, true}) {
      for (const int order : {0, 1, -1}) {
        const std::vector<int64_t> sizes = along_last ? std::vector<int64_t>{3, 500} : std::vector<int64_t>{500, 19};
        const int64_t dim = along_last ? 1 : 0;
        const Buffer self = random_integers(sizes, dtype, 0, 90);
        for (int64_t i = 0; order != 0 && i < self.view.numel(); ++i) {
          const int64_t position = i / self.view.strides[dim] % 500;
          testing::store(self.view.data, dtype, i, static_cast<double>((order > 0 ? position : 499 - position) / 4));
        }
        for (int64_t i = 7; is_floating(dtype) && i < self.view.numel(); i += 101)
          testing::store(self.view.data, dtype, i, i % 2 ? std::nan("") : -0.0);
        for (const bool largest : {false, true}) {
          const Buffer sorted = poisoned(sizes, dtype), places = poisoned(sizes, DType::int64);
          kernels::cpu::sort({}, self.view, dim, largest, sorted.view, places.view);
          for (const int64_t k : {0, 1, 10, 250, 500}) {
            std::vector<int64_t> kept = sizes;
            kept[static_cast<size_t>(dim)] = k;
            const Buffer top = poisoned(kept, dtype), from = poisoned(kept, DType::int64);
            kernels::cpu::topk({}, self.view, k, dim, largest, top.view, from.view);
            View head = sorted.view, head_places = places.view;
            head.sizes[dim] = head_places.sizes[dim] = k;
            ASSERT_EQ(values(from.view), values(head_places));
            const std::vector<double> got = values(top.view), want = values(head);
            for (size_t i = 0; i < got.size(); ++i) ASSERT_TRUE(got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i])));
          }
        }
      }
    }
  }
}

/// The i-th of n elements, of one of several kinds: evenly spread, in clusters, over many magnitudes, equal, with NaN and
/// infinities.
double element_of(int kind, int64_t i, int64_t n) {
  std::uniform_real_distribution<double> uniform(0, 1);
  const double u = uniform(testing::engine());
  switch (kind) {
    case 0:
      return 100 * u - 50;
    case 1:
      return i % 3 == 0 ? 1e6 * u : std::floor(7 * u);
    case 2:
      return std::ldexp(u - 0.5, static_cast<int>(40 * u));
    case 3:
      return 3;
    case 4:
      return static_cast<double>(n - i);
    case 5:
      return i % 50 == 7 ? std::nan("") : i % 2 == 0 ? -0.0 : std::floor(4 * u);
    case 6:
      return i % 90 == 11 ? std::numeric_limits<double>::infinity() * (u - 0.5) : 1e4 * u;
    default:
      return std::nan("");
  }
}

// Lanes that go to buckets, and those that do not.
TEST(Sort, EqualsTheStableSortWhateverTheDistribution) {
  for (const DType dtype : {DType::int64, DType::bfloat16, DType::float32, DType::float64}) {
    for (const int64_t n : {63, 64, 65, 1000, 5003}) {
      for (int kind = 0; kind < 8; ++kind) {
        if (!is_floating(dtype) && kind >= 5) continue;
        const Buffer self = poisoned({2, n}, dtype), sorted = poisoned({2, n}, dtype), order = poisoned({2, n}, DType::int64);
        for (int64_t i = 0; i < 2 * n; ++i) testing::store(self.view.data, dtype, i, element_of(kind, i, n));
        if (dtype == DType::int64 && kind == 2) {  // beyond the integers of double
          self.view.ptr<int64_t>()[5] = INT64_MIN;
          for (int64_t i = 10; i < 30; ++i) self.view.ptr<int64_t>()[i] = INT64_MAX - i % 7;
        }
        for (const bool descending : {false, true}) {
          kernels::cpu::sort({}, self.view, 1, descending, sorted.view, order.view);
          visit(dtype, [&]<typename T>(TypeTag<T>) {
            for (int64_t lane = 0; lane < 2; ++lane) {
              const T* const x = self.view.ptr<T>() + lane * n;
              std::vector<int64_t> want(static_cast<size_t>(n));
              std::iota(want.begin(), want.end(), 0);
              std::stable_sort(want.begin(), want.end(), [&](int64_t a, int64_t b) {
                if (descending) std::swap(a, b);
                if constexpr (std::is_integral_v<T>) return x[a] < x[b];
                const auto p = static_cast<double>(x[a]), q = static_cast<double>(x[b]);
                return p < q || (std::isnan(q) && !std::isnan(p));
              });
              for (int64_t i = 0; i < n; ++i) {
                const int64_t from = order.view.ptr<int64_t>()[lane * n + i];
                ASSERT_EQ(from, want[static_cast<size_t>(i)]) << name(dtype) << " n " << n << " kind " << kind << " " << i;
                ASSERT_EQ(std::memcmp(sorted.view.ptr<T>() + lane * n + i, x + from, sizeof(T)), 0);
              }
            }
          });
        }
      }
    }
  }
}

TEST(Sort, SegmentsAreSortedEachForItself) {
  const std::vector<int64_t> lengths = {3, 0, 40, 1}, offsets = {0, 3, 3, 43, 44};
  const RaggedView ragged{4, 1, lengths.data(), offsets.data()};
  for (const DType dtype : kAll) {
    for (const int64_t inner : {1, 3, 19}) {
      for (const bool descending : {false, true}) {
        const Buffer self = random_integers({44, inner}, dtype, 0, 9), sorted = poisoned({44, inner}, dtype),
                     rows = poisoned({44, inner}, DType::int64);
        if (is_floating(dtype)) testing::store(self.view.data, dtype, 5 * inner, std::nan(""));
        kernels::cpu::segment_sort({}, self.view, ragged, descending, sorted.view, rows.view);
        const std::vector<double> x = values(self.view), y = values(sorted.view), from = values(rows.view);
        for (size_t b = 0; b < lengths.size(); ++b) {
          for (int64_t c = 0; c < inner; ++c) {
            std::vector<std::pair<double, int64_t>> want;  // the naive way: pairs of key and row, stable
            for (int64_t row = offsets[b]; row < offsets[b + 1]; ++row)
              want.emplace_back(x[static_cast<size_t>(row * inner + c)], row);
            std::stable_sort(want.begin(), want.end(), [&](const auto& a, const auto& b) {
              const double left = descending ? b.first : a.first, right = descending ? a.first : b.first;
              return left < right || (std::isnan(right) && !std::isnan(left));
            });
            for (size_t i = 0; i < want.size(); ++i) {
              const size_t at = (static_cast<size_t>(offsets[b]) + i) * static_cast<size_t>(inner) + static_cast<size_t>(c);
              ASSERT_EQ(from[at], static_cast<double>(want[i].second));
              ASSERT_TRUE(y[at] == want[i].first || (std::isnan(y[at]) && std::isnan(want[i].first)));
            }
          }
        }
      }
    }
  }
}

TEST(Sort, PutsNanAfterEverythingAndTakesEmptyLanes) {
  const Buffer self = random_integers({4}, DType::float32, 0, 5), sorted = poisoned({4}, DType::float32),
               order = poisoned({4}, DType::int64);
  testing::store(self.view.data, DType::float32, 1, std::nan(""));
  testing::store(self.view.data, DType::float32, 2, std::numeric_limits<double>::infinity());
  kernels::cpu::sort({}, self.view, 0, false, sorted.view, order.view);
  EXPECT_TRUE(std::isnan(values(sorted.view)[3]));
  EXPECT_EQ(values(order.view)[2], 2);
  kernels::cpu::sort({}, self.view, 0, true, sorted.view, order.view);
  EXPECT_EQ(values(order.view)[0], 1);
  const Buffer none = poisoned({3, 0}, DType::float32), none_sorted = poisoned({3, 0}, DType::float32),
               none_order = poisoned({3, 0}, DType::int64);
  kernels::cpu::sort({}, none.view, 1, false, none_sorted.view, none_order.view);
}

}  // namespace
}  // namespace deckle
