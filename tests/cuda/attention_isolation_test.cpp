// What stands in one sequence, be it no number, infinite or enormous, reaches no other in any derivative of attention.
#include <cmath>

#include "deckle/attention/attention.h"
#include "deckle/ops/generated/index.h"
#include "tests/cuda/every_derivative.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"

namespace deckle {
namespace {

using testing::every_derivative;
using testing::expect_close;
using testing::Leaves;
using testing::like;
using testing::random_tensor;

constexpr int64_t kBefore = 100, kRows = 200, kKeys = 330, kBehind = 130;  // the sequence between has 30 rows and 30 keys

/// Attention of three sequences, of 100, 30 and 70 rows, and 100, 30 and 200 keys.
Leaves attended(const Leaves& at) {
  const Ragged rows = Ragged::from_lengths(std::vector<int64_t>{100, 30, 70}),
               keys = Ragged::from_lengths(std::vector<int64_t>{100, 30, 200});
  return {attention(NestedTensor(at[0], rows), NestedTensor(at[1], keys), NestedTensor(at[2], keys), {.mask = masks::causal()})
              .values()};
}

/// The first and the last sequence of x, each of rows or of keys.
Tensor of_others(const Tensor& x) {
  const Tensor host = x.to(Device{}).to(DType::float64);
  return cat({host.narrow(0, 0, kBefore), host.narrow(0, kBehind, host.size(0) - kBehind)}, 0);
}

void put(Tensor& x, double intruder) { x.narrow(0, kBefore + 7, 1).fill_(intruder); }

void expect_sequences_apart(DType dtype, int64_t width, const std::vector<double>& intruders, Device device, double tolerance) {
  const auto rows = [&](int64_t count) { return random_tensor({count, 2, width}, dtype); };
  for (const double intruder : intruders) {
    for (const char* const where : {"q", "k", "v", "directions"}) {
      SCOPED_TRACE(std::string(name(dtype)) + ", " + std::to_string(intruder) + " in " + where);
      Leaves x = {rows(kRows), rows(kKeys), rows(kKeys)}, t = like(x), u = like(x), du = like(x), dy = {rows(kRows)};
      const auto clean = every_derivative(attended, x, t, u, dy, du, device);
      if (*where == 'q') put(x[0], intruder);
      if (*where == 'k') put(x[1], intruder);
      if (*where == 'v') put(x[2], intruder);
      if (*where == 'd')
        for (Leaves* const directions : {&t, &u, &dy, &du})
          for (Tensor& each : *directions) put(each, intruder);
      const auto got = every_derivative(attended, x, t, u, dy, du, device);
      for (size_t n = 0; n < got.size(); ++n) {
        for (size_t i = 0; i < got[n].size(); ++i) {
          SCOPED_TRACE(std::string(testing::kDerivatives[n]) + ", part " + std::to_string(i));
          expect_close(of_others(got[n][i]), of_others(clean[n][i]), tolerance, tolerance);
        }
      }
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST(AttentionIsolation, OfSequencesOnTheCpu) {
  expect_sequences_apart(DType::float32, 8, {NAN}, {}, 1e-4);
  expect_sequences_apart(DType::bfloat16, 8, {INFINITY}, {}, 2e-2);
}

TEST(CudaAttentionIsolation, OfSequences) {
  NEEDS_CUDA_KERNELS();
  expect_sequences_apart(DType::float32, 64, {NAN, INFINITY, 1e30}, Device::cuda(), 1e-3);
  expect_sequences_apart(DType::bfloat16, 64, {NAN, INFINITY, 1e30}, Device::cuda(), 2e-2);
}

}  // namespace
}  // namespace deckle
