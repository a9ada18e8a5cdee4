#include "versions.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace {

constexpr int64_t kRows = 16;
constexpr int64_t kKeys = 64;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

float dot(const float* a, const float* b, int64_t d) {
  float sum = 0;
  for (int64_t e = 0; e < d; ++e) sum += a[e] * b[e];
  return sum;
}

}  // namespace

void naive(const float* q, const float* k, const float* v, float* out, int64_t n, int64_t d, float scale) {
  std::vector<float> p(n * n);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) p[i * n + j] = scale * dot(q + i * d, k + j * d, d);
    const float top = *std::max_element(&p[i * n], &p[i * n] + n);
    float sum = 0;
    for (int64_t j = 0; j < n; ++j) sum += p[i * n + j] = std::exp(p[i * n + j] - top);
    for (int64_t e = 0; e < d; ++e) out[i * d + e] = 0;
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t e = 0; e < d; ++e) out[i * d + e] += p[i * n + j] / sum * v[j * d + e];
    }
  }
}

void online(const float* q, const float* k, const float* v, float* out, int64_t n, int64_t d, float scale) {
  for (int64_t i = 0; i < n; ++i) {
    float top = -kInfinity, sum = 0;
    for (int64_t e = 0; e < d; ++e) out[i * d + e] = 0;
    for (int64_t j = 0; j < n; ++j) {
      const float z = scale * dot(q + i * d, k + j * d, d), now = std::max(top, z);
      const float old = std::exp(top - now), p = std::exp(z - now);  // what was summed shrinks when the maximum grows
      sum = sum * old + p;
      for (int64_t e = 0; e < d; ++e) out[i * d + e] = out[i * d + e] * old + p * v[j * d + e];
      top = now;
    }
    for (int64_t e = 0; e < d; ++e) out[i * d + e] /= sum;
  }
}

void tiled(const float* q, const float* k, const float* v, float* out, int64_t n, int64_t d, float scale) {
  for (int64_t first = 0; first < n; first += kRows) {
    const int64_t rows = std::min(kRows, n - first);
    float top[kRows], sum[kRows] = {}, p[kRows][kKeys];
    std::fill_n(top, kRows, -kInfinity);
    std::fill_n(out + first * d, rows * d, 0.0f);
    for (int64_t key = 0; key < n; key += kKeys) {
      const int64_t keys = std::min(kKeys, n - key);
      for (int64_t r = 0; r < rows; ++r) {
        float now = top[r];
        for (int64_t j = 0; j < keys; ++j) now = std::max(now, p[r][j] = scale * dot(q + (first + r) * d, k + (key + j) * d, d));
        const float old = std::exp(top[r] - now);
        sum[r] *= old;
        for (int64_t j = 0; j < keys; ++j) sum[r] += p[r][j] = std::exp(p[r][j] - now);
        for (int64_t e = 0; e < d; ++e) out[(first + r) * d + e] *= old;
        for (int64_t j = 0; j < keys; ++j) {
          for (int64_t e = 0; e < d; ++e) out[(first + r) * d + e] += p[r][j] * v[(key + j) * d + e];
        }
        top[r] = now;
      }
    }
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t e = 0; e < d; ++e) out[(first + r) * d + e] /= sum[r];
    }
  }
}

void transposed(const float* q, const float* k, const float* v, float* out, int64_t n, int64_t d, float scale) {
  std::vector<float> q_lanes(d * kRows), out_lanes(d * kRows);
  float scores[kKeys][kRows];
  for (int64_t first = 0; first < n; first += kRows) {
    const int64_t rows = std::min(kRows, n - first);
    float top[kRows], sum[kRows] = {}, old[kRows];
    std::fill_n(top, kRows, -kInfinity);
    std::fill(out_lanes.begin(), out_lanes.end(), 0.0f);
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t e = 0; e < d; ++e) q_lanes[e * kRows + r] = r < rows ? scale * q[(first + r) * d + e] : 0.0f;
    }
    for (int64_t key = 0; key < n; key += kKeys) {
      const int64_t keys = std::min(kKeys, n - key);
      for (int64_t j = 0; j < keys; ++j) {  // S^T = K Q^T: one number of k times a vector of queries
        float lanes[kRows] = {};
        for (int64_t e = 0; e < d; ++e) {
          for (int64_t r = 0; r < kRows; ++r) lanes[r] += k[(key + j) * d + e] * q_lanes[e * kRows + r];
        }
        std::copy_n(lanes, kRows, scores[j]);
      }
      std::copy_n(top, kRows, old);
      for (int64_t j = 0; j < keys; ++j) {
        for (int64_t r = 0; r < kRows; ++r) top[r] = std::max(top[r], scores[j][r]);
      }
      for (int64_t r = 0; r < kRows; ++r) sum[r] *= old[r] = std::exp(old[r] - top[r]);
      for (int64_t j = 0; j < keys; ++j) {
        for (int64_t r = 0; r < kRows; ++r) sum[r] += scores[j][r] = std::exp(scores[j][r] - top[r]);
      }
      for (int64_t e = 0; e < d; ++e) {  // O^T = old O^T + V^T P^T
        float lanes[kRows];
        for (int64_t r = 0; r < kRows; ++r) lanes[r] = old[r] * out_lanes[e * kRows + r];
        for (int64_t j = 0; j < keys; ++j) {
          for (int64_t r = 0; r < kRows; ++r) lanes[r] += v[(key + j) * d + e] * scores[j][r];
        }
        std::copy_n(lanes, kRows, &out_lanes[e * kRows]);
      }
    }
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t e = 0; e < d; ++e) out[(first + r) * d + e] = out_lanes[e * kRows + r] / sum[r];
    }
  }
}
