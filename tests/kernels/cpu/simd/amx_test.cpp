#include "deckle/kernels/cpu/simd/amx.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "deckle/kernels/cpu/simd/peaks.h"

namespace deckle::testing {
namespace {

using namespace kernels::cpu::simd;

struct ModelledTiles {
  ModelledTiles() { model_tiles(true); }
  ~ModelledTiles() { model_tiles(false); }
};

float value(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, 4);
  return x;
}

TEST(Tiles, MultiplyAndAddWithinFloat32) {
  const ModelledTiles model;
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  const auto pair = [&] {
    const float two[2] = {normal(random), normal(random)};
    uint32_t bits[2];
    std::memcpy(bits, two, 8);
    return bits[0] >> 16 | (bits[1] & 0xffff0000u);
  };
  for (const auto& [m, n, depth] :
       {std::tuple(16, 16, 16), std::tuple(32, 48, 32), std::tuple(48, 16, 64), std::tuple(64, 32, 16)}) {
    std::vector<uint32_t> a(static_cast<size_t>(m * depth)), b(static_cast<size_t>(depth * n));
    for (uint32_t& x : a) x = pair();
    for (uint32_t& x : b) x = pair();
    std::vector<float> c(static_cast<size_t>(m * n), 0.5f), fresh(c.size());
    const TileScope tiles;
    tile_matmul(m, n, depth, a.data(), depth, b.data(), n, c.data(), n, true);
    tile_matmul(m, n, depth, a.data(), depth, b.data(), n, fresh.data(), n, false);
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < n; ++j) {
        double sum = 0;
        for (int k = 0; k < depth; ++k) {
          const uint32_t x = a[static_cast<size_t>(i * depth + k)], y = b[static_cast<size_t>(k * n + j)];
          sum += double{value(x << 16)} * value(y << 16) + double{value(x & 0xffff0000u)} * value(y & 0xffff0000u);
        }
        ASSERT_NEAR(fresh[static_cast<size_t>(i * n + j)], sum, 2e-5 * std::sqrt(depth)) << i << " " << j;
        ASSERT_NEAR(c[static_cast<size_t>(i * n + j)], 0.5 + sum, 2e-5 * std::sqrt(depth)) << i << " " << j;
      }
    }
  }
}

/// The products of decoding, with strides beyond their operands, requested or not.
TEST(Tiles, ScoresAndSumsHaveTheBitsOfTheProduct) {
  for (const bool model : {true, false}) {
    if (!model && bf16_arithmetic() != Bf16Arithmetic::tiles) continue;  // asks for the permission too
    model_tiles(model);
    std::mt19937 random(5);
    const auto drawn = [&](int64_t count) {
      std::vector<uint32_t> x(static_cast<size_t>(count));
      for (uint32_t& each : x) each = (random() & 0x81ff81ffu) | 0x3e003e00u;
      return x;
    };
    const TileScope tiles;
    for (const int64_t keys : {16, 48, 64}) {
      for (const int64_t depth : {16, 32, 48, 64}) {
        const int64_t stride = depth + 5;
        const std::vector<uint32_t> k = drawn(keys * stride), b = drawn(depth * 16);
        std::vector<float> got(static_cast<size_t>(keys * 16), NAN), expected = got;
        tile_scores(keys, depth, k.data(), stride, b.data(), got.data(), {reinterpret_cast<const char*>(k.data()), 4 * stride});
        tile_matmul(keys, 16, depth, k.data(), stride, b.data(), 16, expected.data(), 16, false);
        EXPECT_EQ(got, expected) << keys << " " << depth;
      }
      for (int64_t count = 1; count <= 4; ++count) {
        const int64_t stride = 70, weight_stride = 80;
        const std::vector<uint32_t> v = drawn(keys * stride), a = drawn(2 * 16 * weight_stride);
        std::vector<float> got(static_cast<size_t>(16 * 4 * 16), 0.5f), expected = got;
        for (const bool add : {false, true}) {
          TileSum sums[4];
          for (int64_t s = 0; s < count; ++s) {
            const uint32_t* left = a.data() + (s * 2 / count) * 16 * weight_stride;  // of one, two, or one and three
            sums[s] = {left, v.data() + 16 * s, got.data() + 16 * s, {}};
            tile_matmul(16, 16, keys, left, weight_stride, v.data() + 16 * s, stride, expected.data() + 16 * s, 64, add);
          }
          tile_sums(keys, sums, count, weight_stride, stride, 64, add);
          EXPECT_EQ(got, expected) << keys << " " << count << " " << add;
        }
      }
    }
  }
  model_tiles(false);
}

TEST(Tiles, DenormalNumbersCountAsZero) {
  const ModelledTiles model;
  std::vector<uint32_t> a(256, 0x00010001), b(256, 0x7f007f00);  // 9e-41 times 1.7e38
  std::vector<float> c(256);
  const TileScope tiles;
  tile_matmul(16, 16, 16, a.data(), 16, b.data(), 16, c.data(), 16, false);
  for (float x : c) EXPECT_EQ(x, 0.0f);
}

TEST(Tiles, ThePeakLoopStaysInItsOperands) {
  const ModelledTiles model;
  const PeakLoop loop = tiles_peak_loop();
  ASSERT_NE(loop.run, nullptr);
  loop.run(2);
}

}  // namespace
}  // namespace deckle::testing
