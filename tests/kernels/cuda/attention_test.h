// What the tests of forward and backward share: the instances they run for, on Hopper and on the portable path, and the checks of
// results.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/kernels/cuda/attention_case.h"

namespace deckle::testing {

inline constexpr AttentionWindow kFull{};
inline constexpr AttentionWindow kCausal{kUnboundedWindow, 0, true};
inline constexpr AttentionWindow kCausalTopLeft{kUnboundedWindow, 0, false};

/// What every test of a suite runs for.
struct Instance {
  Path path;
  AttentionElement element;
  int head_dim, value_dim;
};

std::vector<Instance> hopper_instances();
std::vector<Instance> portable_instances();
std::vector<Instance> scored_instances();  // Hopper's of scores with features
std::string name_of(const ::testing::TestParamInfo<Instance>& info);

/// Options that differ in what the portable path alone serves: soft cap, slopes, dropout, one after the other and together.
std::vector<CaseOptions> score_features();

/// The same of biases of several shapes, tables, and masks of ranges and of bytes; the last has all of them and those above.
std::vector<CaseOptions> plane_features();

/// Both, as far as the forward of a path serves them.
std::vector<CaseOptions> features_of(Path path);

/// Biases that stand for -inf, but are finite, on all keys of some rows and on some keys of others, in bfloat16, and in a table:
/// in `o`, alone and beside sinks, shared key heads and other features. `alone`: a bias alone.
std::vector<CaseOptions> far_biases(const CaseOptions& o, bool alone);

/// `options` with the features of `features`: all that these two lists set.
CaseOptions with(CaseOptions options, const CaseOptions& features);

/// A few roundings of the element type: P to 16 bits costs 2^-9 (bf16) or 2^-12 (f16) of each term, the result as much again.
double output_tolerance(AttentionElement element);
double gradient_tolerance(AttentionElement element);

/// Runs the forward or the backward of a case and compares every result with the reference, and the memory around it with the
/// poison.
void verify_forward(const CaseOptions& options);
/// Against the exact gradients, or if `given_forward` against those by the rounded out that a backward pass is given: where the
/// exact ones cancel (one key: dS = 0), what is left of the rounding of out has no scale to be measured by.
void verify_backward(const CaseOptions& options, bool given_forward = false);
void expect_forward(const AttentionCase& c, double tolerance);
void expect_backward(const AttentionCase& c, double tolerance);

/// Elements that differ outside one sequence, or in all of them.
unsigned long long different_outside(const AttentionCase& c, const CaseTensor& tensor, const CaseTensor& other, int sequence);
unsigned long long different(const CaseTensor& tensor, const CaseTensor& other);

/// Tests of one instance; skipped, with the reason, where no GPU here runs its path.
class AttentionTest : public ::testing::TestWithParam<Instance> {
 protected:
  void SetUp() override;
  CaseOptions base() const;
  CaseOptions dense(int batch, int queries, int keys, AttentionWindow mask = kFull) const;
  /// Each of features_of(): dense and ragged, under three masks, and with shared key heads.
  std::vector<CaseOptions> feature_cases() const;
  CaseOptions ragged(std::vector<int> queries, std::vector<int> keys, AttentionWindow mask = kFull) const;
};

}  // namespace deckle::testing
