// Running sums on a GPU beside the CPU's: rows of every length around those of threads, tiles and parts, in every dtype, from the
// front and from the back, of rows that lie apart and at odd addresses.
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "deckle/deckle.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace deckle {
namespace {

const DType kTypes[] = {DType::float32, DType::bfloat16, DType::float16, DType::float64,
                        DType::int64,   DType::int32,    DType::uint8,   DType::bool_};

/// Running sums may leave float16, but not by much.
Tensor numbers(int64_t rows, int64_t length, DType dtype) {
  std::mt19937 random(static_cast<unsigned>(rows * 7919 + length));
  std::normal_distribution<double> normal;
  std::vector<double> values(static_cast<size_t>(rows * length));
  for (double& x : values) x = is_floating(dtype) ? normal(random) : static_cast<double>(random() % 2);
  return tensor(values).view({rows, length}).to(dtype);
}

void expect_alike(const Tensor& got, const Tensor& expected) {
  if (is_integral(expected.dtype())) return testing::expect_equal(got, expected);
  const double unit = expected.dtype() == DType::float64 ? 1e-15 : expected.dtype() == DType::float32 ? 1.2e-7 : 8e-3;
  testing::expect_close(got.to(DType::float64), expected.to(DType::float64), unit, unit);
}

TEST(CudaCumsum, RowsOfEveryLength) {
  NEEDS_GPU();
  std::vector<std::pair<int64_t, int64_t>> shapes{{0, 5}, {5, 0}, {8193, 257}, {1, 70'001}, {3, 16'385}, {700, 17}};
  for (const int64_t length : {1, 7, 8, 9, 31, 33, 64, 65, 127, 255, 256, 257, 300, 2047, 2048, 2049, 5000})
    for (const int64_t rows : {1, 3, 40}) shapes.emplace_back(rows, length);
  if (!cuda::fake())
    shapes.emplace_back(1, 5'000'011), shapes.emplace_back(2, 4'194'304 + 1);  // in as many parts as there may be
  for (const auto& [rows, length] : shapes) {
    for (const DType dtype : kTypes) {
      if (rows * length > 100'000 && dtype != DType::float32 && dtype != DType::int64) continue;
      const Tensor x = numbers(rows, length, dtype), there = x.to(kGpu);
      const Tensor apart = slice(empty({rows, length + 3}, dtype, kGpu), 1, 1, length + 1);  // at odd addresses
      apart.copy_(x);
      for (const bool reverse : {false, true}) {
        SCOPED_TRACE(std::string(name(dtype)) + " [" + std::to_string(rows) + ", " + std::to_string(length) + "]" +
                     (reverse ? " from the back" : ""));
        const Tensor expected = cumsum(x, 1, reverse), got = cumsum(there, 1, reverse);
        expect_alike(got, expected);
        testing::expect_equal(cumsum(apart, 1, reverse), got);  // the shape alone decides
        testing::expect_equal(cumsum(there, 1, reverse), got);
        if (rows > 0 && rows * length < 100'000)
          expect_alike(cumsum(there.t().contiguous(), 0, reverse), cumsum(x.t().contiguous(), 0, reverse));
      }
    }
  }
}

/// The same elements one behind another, with the dims in the other order, every other one of each dim, and rows that lie apart.
std::vector<Tensor> layouts(const Tensor& x) {
  const int64_t dims = x.dim();
  std::vector<int64_t> backwards, doubled;
  for (int64_t dim = dims - 1; dim >= 0; --dim) backwards.push_back(dim);
  for (const int64_t size : x.sizes()) doubled.push_back(2 * size + 1);
  Tensor apart = empty(doubled, x.dtype(), kGpu);
  for (int64_t dim = 0; dim < dims; ++dim) apart = slice(apart, dim, 1, doubled[static_cast<size_t>(dim)], 2);
  apart.copy_(x);
  const Tensor there = x.to(kGpu), turned = permute(permute(there, backwards).contiguous(), backwards);
  return {there, turned, apart, slice(cat({there, there}, dims - 1), dims - 1, x.size(-1), 2 * x.size(-1))};
}

TEST(CudaCumsum, OfSeveralKeptDimsAndOfNoneAndOneElement) {
  NEEDS_GPU();
  const std::vector<std::vector<int64_t>> shapes = {
      {},        {1},       {0},    {3, 4, 5},        {2, 3, 4, 65},  {5, 1, 300},  {1, 1, 1},    {1, 7, 1, 3}, {2, 0, 3},
      {0, 4, 5}, {3, 4, 0}, {0, 0}, {4, 3, 2, 2, 33}, {3, 257, 2, 9}, {2, 3, 2500}, {2, 2500, 3}, {2500, 1, 3}};
  for (const std::vector<int64_t>& sizes : shapes) {
    for (const DType dtype : kTypes) {
      const Tensor normal = testing::random_tensor(sizes), x = is_floating(dtype) ? normal.to(dtype) : gt(normal, 0.0).to(dtype);
      if (sizes.empty()) {
        expect_alike(cumsum(x.to(kGpu), 0), cumsum(x, 0));
        continue;
      }
      const std::vector<Tensor> same = layouts(x);
      for (int64_t dim = 0; dim < x.dim(); ++dim) {
        for (const bool reverse : {false, true}) {
          const Tensor expected = cumsum(x, dim, reverse);
          for (size_t layout = 0; layout < same.size(); ++layout) {
            SCOPED_TRACE(std::string(name(dtype)) + " " + to_string(x.sizes()) + " along " + std::to_string(dim) + ", layout " +
                         std::to_string(layout) + (reverse ? ", from the back" : ""));
            expect_alike(cumsum(same[layout], dim, reverse), expected);
          }
        }
      }
      // Of what is repeated along a kept dim and along the dim itself.
      const auto repeated = [&](const Tensor& of) { return expand(slice(of, 0, 0, 1), x.sizes()); };
      for (int64_t dim = 0; dim < x.dim(); ++dim) expect_alike(cumsum(repeated(same[0]), dim), cumsum(repeated(x), dim));
    }
  }
}

TEST(CudaCumsum, CarriesWhatRoundingLoses) {
  NEEDS_GPU();
  for (const int64_t length : {100, 1000, 70'000}) {  // 1e16, then ones, each half a unit of it
    Tensor x = ones({2, length}, DType::float64);
    slice(x, 1, 0, 1).fill_(1e16);
    const std::vector<double> sums = slice(cumsum(x.to(kGpu), 1), 1, length - 1, length).to_vector();
    for (const double sum : sums) EXPECT_EQ(sum, 1e16 + static_cast<double>(length)) << length;  // of two nearest the even one
  }
}

TEST(CudaCumsum, WhatIsNotFiniteStaysInItsRow) {
  NEEDS_GPU();
  const double inf = std::numeric_limits<double>::infinity();
  for (const int64_t length : {20, 400, 40'000}) {
    Tensor x = ones({3, length});
    slice(slice(x, 0, 1, 2), 1, length / 2, length / 2 + 1).fill_(inf);
    const Tensor sums = cumsum(x.to(kGpu), 1).to(Device());
    testing::expect_equal(sums, cumsum(x, 1));
    EXPECT_EQ(slice(slice(sums, 0, 1, 2), 1, length - 1, length).item(), inf);
  }
}

}  // namespace
}  // namespace deckle
