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
