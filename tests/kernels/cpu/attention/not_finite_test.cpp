// What is not finite in an operand reaches the results that depend on it.

#include <fmt/format.h>

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "deckle/kernels/args/attention_candidates.h"
#include "deckle/kernels/cpu/attention/attention.h"
#include "tests/kernels/cpu/attention/attention_case.h"

namespace deckle::testing {
namespace {

using namespace kernels::cpu;

/// A NaN of a dtype whose sign and bits below the quiet one are these.
void put_nan(Buffer& buffer, int64_t i, bool negative, uint64_t payload) {
  if (buffer.dtype() == DType::float64) {
    const uint64_t low = payload & ((uint64_t{1} << 51) - 1);
    static_cast<uint64_t*>(buffer.data())[i] = uint64_t{0x7ff8} << 48 | uint64_t{negative} << 63 | low;
  } else if (buffer.dtype() == DType::bfloat16) {
    static_cast<uint16_t*>(buffer.data())[i] = static_cast<uint16_t>(0x7fc0 | (negative ? 0x8000 : 0) | (payload & 0x3f));
  } else {
    const uint32_t low = static_cast<uint32_t>(payload) & ((1u << 22) - 1);
    static_cast<uint32_t*>(buffer.data())[i] = 0x7fc00000u | uint32_t{negative} << 31 | low;
  }
}

void expect_nan(const Buffer& of, const char* what, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) ASSERT_TRUE(std::isnan(of.get(i))) << what << "[" << i << "] is " << of.get(i);
}

/// In the third of the keys, which all rows see, or in the second row. GPUs write NaN with all bits set.
TEST(AttentionNotFinite, NaNOfAnyBitsReachesWhatItIsPartOf) {
  Random random(seed() + 90);
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16}) {
    for (const int64_t rows : {2, 4, 70}) {
      for (const bool in_key : {false, true}) {
        for (const bool negative : {false, true}) {
          for (const uint64_t payload : {uint64_t{0}, uint64_t{1}, uint64_t{0x155}, ~uint64_t{0}}) {
            SCOPED_TRACE(
                fmt::format("{} {} rows, in {}, {}{:x}", name(dtype), rows, in_key ? "k" : "q", negative ? "-" : "", payload));
            constexpr int64_t kKeys = 9, kDim = 8;
            AttentionCase c;
            c.add_sequence(rows, kKeys);
            c.problem.dtype = dtype;
            c.problem.heads = c.problem.kv_heads = 1;
            c.problem.head_dim = c.problem.value_dim = kDim;
            c.problem.scale = 0.3;
            c.layout();
            Operands x = c.operands(dtype, c.normal(random));
            const Operands t = c.operands(dtype, c.normal(random));
            const Results g = c.results(dtype, c.normal(random));
            put_nan(in_key ? x.k : x.q, (in_key ? 2 : 1) * kDim + 5, negative, payload);
            const int64_t first = in_key ? 0 : 1, last = in_key ? rows : 2;  // rows whose scores are NaN
            const auto expect_rows = [&](const Results& got, const char* what) {
              expect_nan(got.out, what, first * kDim, last * kDim);
              expect_nan(got.lse, what, first, last);
            };
            const auto expect_gradients = [&](const Operands& got, const char* what) {
              expect_nan(got.q, what, first * kDim, last * kDim);
              expect_nan(got.k, what, 0, kKeys * kDim);
              expect_nan(got.v, what, 0, kKeys * kDim);
            };
            Results result = c.results(dtype, AttentionCase::poisoned), tangent = c.results(dtype, AttentionCase::poisoned);
            result.out = Buffer::normal(dtype, result.out.count(), random),
            result.lse = Buffer::normal(statistics_dtype(dtype), rows, random);
            c.bind(result);
            const std::vector<uint8_t> decoded = decoded_sequences({c.problem});
            c.problem.decoded = decoded.data();
            attention_forward({}, c.problem, x.view, result.view);
            expect_rows(result, "decoded, or not");
            c.problem.decoded = nullptr;
            attention_forward({}, c.problem, x.view, result.view);
            expect_rows(result, "forward");
            Operands gradient = c.operands(dtype, c.normal(random));
            attention_backward({}, c.problem, x.view, result.view, g.view, gradient.view);
            expect_gradients(gradient, "backward");
            attention_jvp({}, c.problem, x.view, t.view, result.view, tangent.view);
            expect_rows(result, "forward of the JVP");
            expect_rows(tangent, "JVP");
            attention_mixed({}, c.problem, x.view, t.view, t.view, t.view, tangent.view);
            expect_rows(tangent, "mixed");
            attention_second({}, c.problem, x.view, t.view, result.view, g.view, {}, gradient.view, tangent.view);
            expect_gradients(gradient, "second");
            if (HasFailure()) return;
          }
        }
      }
    }
  }
}

TEST(AttentionNotFinite, NaNOfALogSumExpReachesTheGradients) {
  Random random(seed() + 91);
  for (const DType dtype : {DType::float32, DType::float64}) {
    AttentionCase c;
    c.add_sequence(40, 40);
    c.problem.dtype = dtype;
    c.problem.heads = c.problem.kv_heads = 1;
    c.problem.head_dim = c.problem.value_dim = 8;
    c.layout();
    const Operands x = c.operands(dtype, c.normal(random));
    const Results g = c.results(dtype, c.normal(random));
    Results result = c.results(dtype, c.normal(random));
    attention_forward({}, c.problem, x.view, result.view);
    put_nan(result.lse, 3, false, ~uint64_t{0});
    Operands gradient = c.operands(dtype, c.normal(random));
    attention_backward({}, c.problem, x.view, result.view, g.view, gradient.view);
    expect_nan(gradient.q, "q", 3 * 8, 4 * 8);
    expect_nan(gradient.v, "v", 0, 40 * 8);
  }
}

}  // namespace
}  // namespace deckle::testing
