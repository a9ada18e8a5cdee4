#include "versions.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace {

constexpr int64_t kRows = 16;
typedef float Lanes __attribute__((vector_size(sizeof(float) * kRows)));
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

namespace {

/// kStep keys (then kStep columns of v) at a time share each vector that is loaded: their sums stay in registers.
template <int kStep>
[[gnu::always_inline]] inline void transposed_by(const float* q, const float* k, const float* v, float* out, int64_t n, int64_t d,
                                                 float scale) {
  std::vector<Lanes> q_lanes(d), out_lanes(d);
  Lanes scores[kKeys];
  for (int64_t first = 0; first < n; first += kRows) {
    const int64_t rows = std::min(kRows, n - first);
    Lanes top = Lanes{} - kInfinity, sum{};
    for (int64_t e = 0; e < d; ++e) {
      for (int64_t r = 0; r < kRows; ++r) q_lanes[e][r] = r < rows ? scale * q[(first + r) * d + e] : 0.0f;
      out_lanes[e] = Lanes{};
    }
    for (int64_t key = 0; key < n; key += kKeys) {
      const int64_t keys = std::min(kKeys, n - key);
      Lanes now = top;
      for (int64_t j = 0; j < keys;) {  // S^T = K Q^T: one number of k times a vector of queries
        const auto product = [&]<int kCount>() __attribute__((always_inline)) {
          Lanes z[kCount] = {};
          for (int64_t e = 0; e < d; ++e) {
            for (int s = 0; s < kCount; ++s) z[s] += k[(key + j + s) * d + e] * q_lanes[e];
          }
          for (int s = 0; s < kCount; ++s) scores[j + s] = z[s], now = now > z[s] ? now : z[s];
          j += kCount;
        };
        j + kStep <= keys ? product.template operator()<kStep>() : product.template operator()<1>();
      }
      Lanes old;
      for (int64_t r = 0; r < kRows; ++r) old[r] = std::exp(top[r] - now[r]);
      sum *= old;
      for (int64_t j = 0; j < keys; ++j) {
        for (int64_t r = 0; r < kRows; ++r) scores[j][r] = std::exp(scores[j][r] - now[r]);
        sum += scores[j];
      }
      for (int64_t e = 0; e < d;) {  // O^T = old O^T + V^T P^T
        const auto product = [&]<int kCount>() __attribute__((always_inline)) {
          Lanes o[kCount];
          for (int s = 0; s < kCount; ++s) o[s] = old * out_lanes[e + s];
          for (int64_t j = 0; j < keys; ++j) {
            for (int s = 0; s < kCount; ++s) o[s] += v[(key + j) * d + e + s] * scores[j];
          }
          for (int s = 0; s < kCount; ++s) out_lanes[e + s] = o[s];
          e += kCount;
        };
        e + kStep <= d ? product.template operator()<kStep>() : product.template operator()<1>();
      }
      top = now;
    }
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t e = 0; e < d; ++e) out[(first + r) * d + e] = out_lanes[e][r] / sum[r];
    }
  }
}

}  // namespace

void transposed(const float* q, const float* k, const float* v, float* out, int64_t n, int64_t d, float scale) {
  transposed_by<1>(q, k, v, out, n, d, scale);
}

void blocked(const float* q, const float* k, const float* v, float* out, int64_t n, int64_t d, float scale) {
  transposed_by<8>(q, k, v, out, n, d, scale);
}
