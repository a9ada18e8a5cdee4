#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/ops/suite.h"
#include "tests/ops/values.h"

/// What the parts of the suite share.
namespace deckle::suite {

using Tensors = std::vector<Tensor>;

Tensor converted(const Tensor& tensor, DType dtype);
Tensors mapped(const Tensors& tensors, const std::function<Tensor(const Tensor&)>& f);
/// The call; an op that writes its arguments gets copies of them, which carry history and tangents.
Tensors called(const Case& op, const Tensors& tensors);

/// |got - expected| <= tolerance max(least, max |expected|), element by element, whatever the dtypes are.
void expect_values(const Tensor& got, const Tensor& expected, double tolerance, const std::string& what, double least = 1);

/// Each tensor in turn one larger and one smaller than the sample says, and of other dtypes.
void for_wrong_arguments(const Case& op, const std::function<void(size_t i, const Tensor& wrong)>& attempt);

// Parts of check(), in files of their own.
void check_derivatives(const Case& op);
void check_third_order(const Case& op);
void check_limits(const Case& op);
void check_wrong_arguments(const Case& op);

/// Whether calls are made on a GPU (DECKLE_TEST_DEVICE=cuda) and held to the CPU's: what check() then does instead.
bool on_device();
/// It fails if a call on the GPU makes the host wait and the op is none of the host's.
void check_on_device(const Case& op);

}  // namespace deckle::suite
