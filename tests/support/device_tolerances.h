#pragma once

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string>
#include <string_view>

/// How far a training on a GPU may be from the same training done otherwise. docs/gpu_reference.md has this table, and a test
/// compares both.
namespace deckle::testing {

struct DeviceTolerance {
  std::string_view of;
  double float64 = 0, float32 = 0, bfloat16 = 0;  // 0: no test

  double in(bool half) const { return half ? bfloat16 : float32; }
  std::string row() const {
    const auto shown = [](double number) { return number == 0 ? std::string() : fmt::format(" {:g}", number); };
    return fmt::format("| {} |{} |{} |{} |\n", of, shown(float64), shown(float32), shown(bfloat16));
  }
};

namespace tolerances {

inline constexpr DeviceTolerance kFirstLoss{.of = "loss of the first step beside the CPU's, absolute", .float64 = 1e-12};
inline constexpr DeviceTolerance kFirstGradients{.of = "its gradients, relative, and a hundredth of that absolute",
                                                 .float64 = 1e-11};
inline constexpr DeviceTolerance kCurve{.of = "losses of 20 to 100 steps beside the CPU's, absolute", .float32 = 2e-3};
inline constexpr DeviceTolerance kFirstSteps{.of = "losses of steps 1 to 5 beside the CPU's, relative", .bfloat16 = 0.005};
inline constexpr DeviceTolerance kLaterSteps{.of = "losses of steps 6 to 20 beside the CPU's, relative", .bfloat16 = 0.03};
inline constexpr DeviceTolerance kFromTheCpu{.of = "losses on a GPU that goes on from a CPU's state, relative", .bfloat16 = 0.01};
inline constexpr DeviceTolerance kFromAGpu{.of = "losses on a CPU that goes on from a GPU's state, relative", .bfloat16 = 0.02};
inline constexpr DeviceTolerance kRoom{
    .of = "losses in a `RaggedCapacity` or a graph beside known lengths, relative", .float32 = 1e-4, .bfloat16 = 0.01};
inline constexpr DeviceTolerance kRoomGradients{
    .of = "gradients of each parameter there, norm of the difference, relative", .float32 = 1e-4, .bfloat16 = 0.03};
inline constexpr DeviceTolerance kRoomNorm{.of = "norm of all gradients there, relative", .float32 = 1e-3};

}  // namespace tolerances

inline constexpr std::array kDeviceTolerances = {
    tolerances::kFirstLoss,  tolerances::kFirstGradients, tolerances::kCurve, tolerances::kFirstSteps,    tolerances::kLaterSteps,
    tolerances::kFromTheCpu, tolerances::kFromAGpu,       tolerances::kRoom,  tolerances::kRoomGradients, tolerances::kRoomNorm};

}  // namespace deckle::testing
