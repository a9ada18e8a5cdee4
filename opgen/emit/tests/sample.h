#pragma once

#include <string>
#include <vector>

#include "opgen/ir/op.h"

namespace opgen::tests {

/// The call of suite::Random that makes a tensor: random.normal({4, 7}).
std::string random_call(const SampleTensor& tensor);

/// What the call is given for argument `index`; tensors are read from the vector `tensors`: t[0], TensorList{t[0], t[1]}.
std::string argument_text(const Op& op, const Sample& sample, size_t index);
std::vector<std::string> argument_texts(const Op& op, const Sample& sample);
/// Arguments of the public function, from one text for each argument of the op: what the sample does not give of the options is
/// left out.
std::vector<std::string> public_texts(const Op& op, const Sample& sample, std::vector<std::string> texts);
/// The same where the argument is nested: n[0].
std::string nested_argument_text(const Op& op, const Sample& sample, size_t index);
/// Of each tensor whether it is of one of these arguments: true, false.
std::string tensors_among(const Op& op, const Sample& sample, const std::vector<std::string>& arguments);
/// The check that in the scope of an Autocast the case `op` is itself on converted operands.
std::string autocast_check(const Op& op, const Sample& sample);
/// The numbers of an argument that names dims, one by one; empty if it gives none.
std::vector<std::string> dims_of(const Op& op, const Sample& sample, size_t index);

}  // namespace opgen::tests
