#pragma once

#include <functional>
#include <string>

#include "deckle/base/dtype.h"
#include "tests/ops/suite_support.h"

/// What the parts of the suite that hold a GPU to the CPU share.
namespace deckle::suite {

inline const Device kGpu = Device::cuda();

Tensors on_gpu(const Tensors& tensors);
void expect_on_gpu(const Tensors& got, const Tensors& expected, double tolerance, const std::string& what);

/// The results of a call on the GPU are those of the same call on the CPU, to `tolerance`; what the one refuses the other
/// refuses, for the same reason. An error of the GPU's call alone is thrown.
void expect_same_answer(const std::function<Tensors()>& there, const std::function<Tensors()>& here, double tolerance,
                        const std::string& what);

/// Derivatives of both orders in all modes, of the op and of its form in place; the host waits only in ops of the host.
void check_derivatives_on_device(const Case& op);
/// First gradients in float32 and the halves.
void check_narrow_gradients_on_device(const Case& op);
/// Operands of other dtypes and sizes than the sample's: the same refusals, the same results.
void check_wrong_arguments_on_device(const Case& op);

}  // namespace deckle::suite
