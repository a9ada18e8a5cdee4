// One problem whose operands come in pairs, on the host and on the device, and what tests of such kernels share.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/cuda/device.h"
#include "tests/kernels/cuda/pair_reference.h"
#include "tests/support/seed.h"

namespace deckle::testing::pairs {

using kernels::AttentionElement;
using kernels::AttentionTensor;
using kernels::AttentionWindow;
using kernels::CudaAttentionProblem;
using kernels::kUnboundedWindow;

inline constexpr AttentionWindow kFull{}, kCausal{kUnboundedWindow, 0, true}, kTopLeft{kUnboundedWindow, 0, false},
    kWindow{40, 25, true};

struct Options {
  int head_dim = 64, value_dim = 64, heads = 2, kv_heads = 2;
  std::vector<int> queries, keys, spare;  // spare: rows behind the keys, which hold NaN
  bool ragged = false, padded = false, sinks = false;
  AttentionWindow mask;
  float scale = 0, magnitude = 1, offset = 0;  // offset: added to the tangents of k along q's mean
  int without = -1;                            // which tangent is not given
};

inline std::string describe(const Options& o) {
  std::ostringstream text;
  text << "D " << o.head_dim << "/" << o.value_dim << ", heads " << o.heads << "/" << o.kv_heads << (o.ragged ? ", ragged" : "")
       << (o.padded ? ", padded" : "") << (o.sinks ? ", sinks" : "") << ", mask " << o.mask.left << " " << o.mask.right << " "
       << o.mask.bottom_right << ", scale " << o.scale << ", magnitude " << o.magnitude << ", rows";
  for (size_t i = 0; i < std::min<size_t>(o.queries.size(), 6); ++i) text << " " << o.queries[i] << "x" << o.keys[i];
  return text.str();
}

/// [rows, heads, columns] on the host, and as the kernel gets it.
struct Tensor {
  int64_t rows = 0, heads = 0, columns = 0, row_stride = 0, head_stride = 0;
  std::vector<float> values;
  DeviceBuffer packed, memory;
};

enum class Type { f32, bf16, f16 };

inline float rounded(Type type, float x) {
  return type == Type::f32 ? x : type == Type::bf16 ? __bfloat162float(__float2bfloat16(x)) : __half2float(__float2half(x));
}

class PairCase {
 public:
  PairCase(const Options& options, Type type) : o(options), type_(type) {
    std::vector<int64_t> queries{0}, keys{0}, lengths;
    for (size_t i = 0; i < o.queries.size(); ++i) {
      queries.push_back(queries.back() + o.queries[i]);
      keys.push_back(keys.back() + o.keys[i] + (o.spare.empty() ? 0 : o.spare[i]));
      lengths.push_back(o.keys[i]);
    }
    query_rows = queries.back(), key_rows = keys.back();
    const auto upload = [](DeviceBuffer& to, const auto& from) {
      to = DeviceBuffer(std::max<int64_t>(8, from.size() * sizeof(from[0])));
      to.upload(from);
    };
    upload(query_offsets_, queries), upload(key_offsets_, keys), upload(key_lengths_, lengths);
    problem.element = type == Type::f16 ? AttentionElement::f16 : AttentionElement::bf16;
    problem.sizes = {static_cast<int32_t>(o.queries.size()),
                     o.heads,
                     o.kv_heads,
                     o.head_dim,
                     o.value_dim,
                     o.ragged            ? query_rows
                     : o.queries.empty() ? 0
                                         : o.queries[0],
                     o.ragged         ? key_rows
                     : o.keys.empty() ? 0
                                      : o.keys[0]};
    if (o.ragged) {
      problem.sizes.query_offsets = query_offsets_.as<int64_t>();
      problem.sizes.key_offsets = key_offsets_.as<int64_t>();
      if (!o.spare.empty()) problem.sizes.key_lengths = key_lengths_.as<int64_t>();
    }
    problem.mask = o.mask;
    problem.scale = o.scale != 0 ? o.scale : 1 / std::sqrt(static_cast<float>(o.head_dim));
    if (o.sinks) {
      std::vector<float> sinks;
      for (int h = 0; h < o.heads; ++h) sinks.push_back(static_cast<float>(h) - 0.5f);
      upload(sinks_, sinks);
      problem.sinks = sinks_.as<float>();
    }
    x.query_offsets = query_offsets_.as<int64_t>(), x.key_offsets = key_offsets_.as<int64_t>();
    if (!o.spare.empty()) x.key_lengths = key_lengths_.as<int64_t>();
    q = draw(false, o.head_dim, o.magnitude), k = draw(true, o.head_dim, o.magnitude), v = draw(true, o.value_dim, 1);
    x.q = q.packed.as<float>(), x.k = k.packed.as<float>(), x.v = v.packed.as<float>();
    problem.q = view(q), problem.k = view(k), problem.v = view(v);
    lse = DeviceBuffer(std::max<int64_t>(4, query_rows * o.heads * 4));
    problem.lse = lse.as<float>();
    out = blank(false, o.value_dim);
    problem.out = view(out);
  }

  Tensor blank(bool key_side, int columns) const {
    Tensor t;
    t.rows = key_side ? key_rows : query_rows;
    t.heads = key_side ? o.kv_heads : o.heads;
    t.columns = columns;
    t.head_stride = columns + (o.padded ? 8 : 0);
    t.row_stride = t.heads * t.head_stride + (o.padded ? 16 : 0);
    t.memory = DeviceBuffer(std::max<int64_t>(256, t.rows * t.row_stride * (type_ == Type::f32 ? 4 : 2)));
    return t;
  }

  Tensor draw(bool key_side, int columns, float magnitude) {
    Tensor t = blank(key_side, columns);
    std::normal_distribution<float> normal;
    t.values.resize(t.rows * t.heads * columns);
    for (float& value : t.values) value = rounded(type_, magnitude * normal(random_));
    if (key_side && !o.spare.empty()) {
      int64_t row = 0;
      for (size_t i = 0; i < o.keys.size(); ++i) {
        row += o.keys[i];
        for (int64_t n = row * t.heads * columns; n < (row + o.spare[i]) * t.heads * columns; ++n) t.values[n] = NAN;
        row += o.spare[i];
      }
    }
    send(t);
    return t;
  }

  void send(Tensor& t) const {
    t.packed = DeviceBuffer(std::max<int64_t>(4, t.values.size() * 4));
    t.packed.upload(t.values);
    const auto laid_out = [&](auto convert) {
      using T = decltype(convert(0.0f));
      std::vector<T> memory(t.memory.bytes() / sizeof(T), convert(NAN));
      for (int64_t n = 0; n < static_cast<int64_t>(t.values.size()); ++n)
        memory[n / (t.heads * t.columns) * t.row_stride + n / t.columns % t.heads * t.head_stride + n % t.columns] =
            convert(t.values[n]);
      t.memory.upload(memory);
    };
    if (type_ == Type::f32) laid_out([](float y) { return y; });
    if (type_ == Type::bf16) laid_out([](float y) { return __float2bfloat16(y); });
    if (type_ == Type::f16) laid_out([](float y) { return __float2half(y); });
  }

  AttentionTensor view(const Tensor& t) const {
    const int64_t per_batch = o.ragged || o.queries.empty() ? 0 : t.rows / static_cast<int64_t>(o.queries.size());
    return {t.memory.as<void>(), per_batch * t.row_stride, t.row_stride, t.head_stride};
  }

  /// The tensor's elements; `*gaps`: whether all memory between them is as it was, NaN.
  std::vector<double> read(const Tensor& t, bool* gaps) const {
    std::vector<double> memory, values(t.rows * t.heads * t.columns);
    if (type_ == Type::f32)
      for (float y : t.memory.download<float>()) memory.push_back(y);
    if (type_ == Type::bf16)
      for (__nv_bfloat16 y : t.memory.download<__nv_bfloat16>()) memory.push_back(__bfloat162float(y));
    if (type_ == Type::f16)
      for (__half y : t.memory.download<__half>()) memory.push_back(__half2float(y));
    for (size_t n = 0; n < values.size(); ++n) {
      double& at = memory[n / (t.heads * t.columns) * t.row_stride + n / t.columns % t.heads * t.head_stride + n % t.columns];
      values[n] = at;
      at = NAN;
    }
    *gaps = true;
    for (double y : memory) *gaps = *gaps && std::isnan(y);
    return values;
  }

  void take_workspace(int64_t bytes) {
    workspace_ = DeviceBuffer(std::max<int64_t>(256, bytes + 256));
    problem.workspace = workspace_.as<void>();
    problem.workspace_bytes = bytes;
  }
  void check_guard(int64_t bytes) const {
    const std::vector<uint8_t> all = workspace_.download<uint8_t>();
    for (int64_t i = bytes; i < bytes + 256; ++i) ASSERT_EQ(all[i], 0xff) << "behind the workspace";
  }

  Options o;
  int64_t query_rows = 0, key_rows = 0;
  CudaAttentionProblem problem;
  PairOperands x;
  Tensor q, k, v, out;
  DeviceBuffer lse;

 private:
  Type type_;
  std::mt19937_64 random_{seed()};
  DeviceBuffer query_offsets_, key_offsets_, key_lengths_, sinks_, workspace_;
};

struct Errors {
  double norm = 0, largest = 0;  // of the error, relative to the reference's norm; of any element
};

template <class T>
Errors errors(const std::vector<T>& got, const std::vector<double>& expected) {
  double error = 0, norm = 0, largest = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::isinf(expected[i]) && static_cast<double>(got[i]) == expected[i]) continue;
    const double e = std::abs(static_cast<double>(got[i]) - expected[i]);
    if (!(e < INFINITY)) return {INFINITY, INFINITY};
    error += e * e;
    norm += expected[i] * expected[i];
    largest = std::max(largest, e);
  }
  return {error == 0 ? 0 : std::sqrt(error / norm), largest};
}

class Pairs : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const int capability = compute_capability(); capability / 10 != 9)
      GTEST_SKIP() << "needs a GPU of compute capability 9.0, here is " << capability;
  }
};

inline Options sized(std::vector<int> queries, std::vector<int> keys, AttentionWindow mask, bool ragged) {
  Options o;
  o.queries = std::move(queries), o.keys = std::move(keys), o.mask = mask, o.ragged = ragged;
  return o;
}

inline std::vector<Options> cases() {
  std::vector<Options> all;
  for (const int dim : {64, 128}) {
    const auto add = [&](Options o) {
      if (o.head_dim == 64) o.head_dim = o.value_dim = dim;
      all.push_back(o);
    };
    for (const int rows : {1, 2, 63, 64, 65, 127, 128, 129, 200, 385, 700}) {
      add(sized({rows}, {rows}, kFull, false));
      add(sized({rows}, {rows}, kCausal, false));
    }
    for (const AttentionWindow& mask : {kFull, kCausal, kTopLeft, kWindow}) {
      add(sized({130, 130}, {67, 67}, mask, false));
      add(sized({67, 67}, {330, 330}, mask, false));
      add(sized({0, 5, 300, 0, 64, 1, 0, 129, 17, 450, 0}, {4, 9, 120, 0, 0, 300, 7, 200, 17, 1, 0}, mask, true));
      Options o = sized({0, 5, 300, 1, 64, 1, 129, 17}, {4, 9, 120, 700, 0, 300, 200, 17}, mask, true);
      o.spare = {3, 0, 60, 68, 100, 500, 1, 47};
      add(o);
      o = sized({210, 210, 210}, {333, 333, 333}, mask, false);
      o.heads = 6, o.kv_heads = 2, o.padded = true;
      add(o);
      o.scale = -0.07f;
      add(o);
      o.magnitude = 8;
      add(o);
      o.magnitude = 1, o.ragged = true;
      add(o);
    }
    add(sized({40, 40}, {0, 0}, kFull, false));
    add(sized({0, 0}, {40, 40}, kFull, false));
    add(sized({}, {}, kFull, true));
    add(sized({1}, {0}, kFull, true));
    add(sized({300}, {3000}, kFull, false));
  }
  return all;
}

}  // namespace deckle::testing::pairs
