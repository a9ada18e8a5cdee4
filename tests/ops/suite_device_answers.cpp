#include <fmt/format.h>
#include <gtest/gtest.h>

#include <optional>

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

/// An error that a kernel reports comes after the op, and does not name its operand.
bool came_late(const std::string& detail) { return detail.find("an op before this") != std::string::npos; }

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
  ASSERT_TRUE(got.refused) << what << ", which the CPU refuses: " << *expected.refused;
  if (!came_late(*got.refused)) {
    EXPECT_EQ(*got.refused, *expected.refused) << what;
  }
}

/// What the CPU refuses of wrong operands a GPU refuses, and in the same words; what it takes gives the same there.
void check_wrong_arguments_on_device(const Case& op) {
  for_wrong_arguments(op, [&](size_t i, const Tensor& wrong) {
    Tensors tensors = op.tensors;
    tensors[i] = wrong;
    const Tensors there = on_gpu(tensors);
    const std::string what = fmt::format("with operand {} {} of shape {}", i, name(wrong.dtype()), to_string(wrong.sizes()));
    expect_same_answer([&] { return called(op, there); }, [&] { return called(op, tensors); }, 1e-5, what);
  });
}

}  // namespace deckle::suite
