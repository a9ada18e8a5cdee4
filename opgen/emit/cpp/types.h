#pragma once

#include <string>
#include <string_view>

#include "opgen/ir/op.h"

namespace opgen::cpp {

/// The C++ of a parameter inside the library: const Tensor&, int64_t, IntSpan...
std::string parameter_type(const Type& type);
/// The same of a public function, which converts nothing into numbers: const Tensor&, IntArg, Ints...
std::string public_type(const Type& type);
/// The C++ of a kernel's parameter: const View&, std::span<const View>...
std::string kernel_parameter_type(const Type& type);
/// The same of a field of a struct, which owns no text and refers to nothing.
std::string kernel_field_type(const Type& type);
/// A type that owns its value, for fields and captures.
std::string owned_type(const Type& type);
/// What the function of the op returns.
std::string return_type(const Op& op);
/// The C++ of a default value in a schema.
std::string default_value(const Argument& argument);
/// Which C++ reads as the negative of a number that is none.
inline constexpr std::string_view kLeastInteger = "-9223372036854775808";
/// `const Tensor& self, const AttentionInputs& x, int64_t dim = -1`.
std::vector<std::string> parameters(const Op& op, bool with_defaults, std::string (*type)(const Type&) = parameter_type);
/// The same of an op that reads rows where they are: `const RowOperand& self, const Scalar& alpha`.
std::vector<std::string> row_parameters(const Op& op, bool with_defaults);

}  // namespace opgen::cpp
