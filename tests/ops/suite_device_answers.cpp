#include <fmt/format.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string_view>

#include "deckle/core/cuda/device.h"
#include "tests/ops/suite_device.h"

namespace deckle::suite {
namespace {

/// What a call gives, or why it refuses.
struct Answer {
  Tensors results;
  std::optional<std::string> refused;
};

Answer answer_of(const std::function<Tensors()>& call) {
  try {
    return {call(), std::nullopt};
  } catch (const Error& error) {
    return {{}, error.detail()};
  }
}

/// What a kernel finds wrong with values comes after the op and names no operand, and another formula finds it by another op.
bool about_values(const std::string& detail) {
  for (const char* const part : {"an op before this", "is out of range", "is no class", "is not positive definite", "is singular",
                                 "has no rows, and an ind"}) {
    if (detail.find(part) != std::string::npos) return true;
  }
  return false;
}

/// Parts of formulas that the op around them has checked before: of other operands a GPU's formula says nothing, or something
/// else.
const std::set<std::string_view> kParts = {"prod_others"};

}  // namespace

void expect_same_answer(const std::function<Tensors()>& there, const std::function<Tensors()>& here, double tolerance,
                        const std::string& what) {
  const Answer expected = answer_of(here);
  const auto done = [&] {  // what its kernels find is reported by the next wait
    Tensors results = there();
    cuda::synchronize(kGpu);
    return results;
  };
  if (!expected.refused) return expect_on_gpu(done(), expected.results, tolerance, what);
  const Answer got = answer_of(done);
  // Of an op that is refused after one of its kernels found something, the kernel's report is still to come: not to the next op.
  const Answer late = answer_of([] {
    cuda::synchronize(kGpu);
    return Tensors();
  });
  if (got.refused && late.refused && about_values(*expected.refused)) return;
  EXPECT_FALSE(late.refused) << what << ": " << *late.refused;
  ASSERT_TRUE(got.refused) << what << ", which the CPU refuses: " << *expected.refused;
  if (!about_values(*got.refused) || !about_values(*expected.refused)) {
    EXPECT_EQ(*got.refused, *expected.refused) << what;
  }
}

/// What the CPU refuses of wrong operands a GPU refuses, and in the same words; what it takes gives the same there.
void check_wrong_arguments_on_device(const Case& op) {
  if (kParts.contains(op.name)) return;
  for_wrong_arguments(op, [&](size_t i, const Tensor& wrong) {
    Tensors tensors = op.tensors;
    tensors[i] = wrong;
    const Tensors there = on_gpu(tensors);
    const std::string what = fmt::format("with operand {} {} of shape {}", i, name(wrong.dtype()), to_string(wrong.sizes()));
    expect_same_answer([&] { return called(op, there); }, [&] { return called(op, tensors); }, 1e-5, what);
  });
}

}  // namespace deckle::suite
