#pragma once

#include <string>
#include <vector>

#include "opgen/ir/op.h"

namespace opgen::cpp {

enum class Variant { functional, inplace, out };

/// `Tensor silu(const Tensor& self)`.
std::string signature(const Op& op, Variant variant, bool with_defaults);
std::string variant_name(const Op& op, Variant variant);
/// `Tensor mul(const RowOperand& self, const RowOperand& other)`.
/// The overload for a temporary self, of ops that may show its elements: it takes the handle, so that an assignment to what it
/// returns finds out whether anybody else holds what is written.
std::string of_a_temporary(const Op& op);
std::string row_signature(const Op& op, bool with_defaults);
/// Below autograd: variants write into `out` and return nothing.
std::string raw_signature(const Op& op, bool out, bool with_defaults);
std::string native_signature(const Op& op, bool with_defaults);
/// The body of a composite in C++.
std::string composite_signature(const Op& op);
/// Parameters of the op's CPU kernel.
std::vector<std::string> kernel_parameters(const Op& op);

/// `dispatch::common_device({self, other}, list)`: where the op runs; "" without tensors.
std::string common_device(const Op& op);
/// `const launch::OnDevice there(...);`: factories that the statements after it call make their tensors where the op runs.
std::string factories_there(const Op& op);

/// `head { statement }`, on one line if it fits.
std::string one_line_or_block(const std::string& head, const std::string& statement);
/// A public function: its errors are its own, whatever it called, and hold the shapes of its tensors.
std::string naming_itself(const Op& op, Variant variant, const std::string& head, const std::string& body);

}  // namespace opgen::cpp
