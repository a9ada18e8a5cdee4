#pragma once

#include <string>
#include <vector>

#include "opgen/ir/op.h"

namespace opgen::cpp {

// Keyword-only arguments are one struct in C++: `Conv1dOptions`, which public functions take last, as `options`. Below them every
// argument stands alone.

std::string options_name(const Op& op);
/// The struct, with the defaults of the signature; "" if no argument is keyword-only.
std::string print_options(const Op& op);
/// `const Tensor& input, const Conv1dOptions& options = {}`.
std::vector<std::string> public_parameters(const Op& op, bool with_defaults);
/// `dim` of `IntArg dim = 0`.
std::string name_of(const std::string& parameter);
/// How many public parameters, with their defaults and the options last, stand before those that may be left out.
size_t required_before_options(const std::vector<std::string>& parameters);
/// `sort(self, options)` beside `sort(self, dim, options)`, where dim may be left out; "" where nothing stands between.
std::string options_alone(const Op& op, const std::string& result, const std::string& name,
                          const std::vector<std::string>& parameters);
/// `const auto& [stride, padding] = options;`: the first statement of a public function, whose arguments then stand alone.
std::string unpack_options(const Op& op);
/// The arguments of a call of the public function, from one text for each parameter up to the last that is given; "" leaves an
/// option to its default.
std::vector<std::string> public_arguments(const Op& op, const std::vector<std::string>& texts);
/// The same from one text for each argument, where records and options are those of the function around it.
std::vector<std::string> passed_on(const Op& op, const std::vector<std::string>& texts);

}  // namespace opgen::cpp
