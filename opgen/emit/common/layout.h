#pragma once

#include <string>

#include "opgen/schema/home.h"

namespace opgen {

/// The folder of a library's generated files and their names: in Deckle by layer, in other libraries below NAMESPACE/ops.
std::string ops_header(const Home& home, const std::string& stem);
std::string kernels_header(const Home& home, const std::string& stem);
std::string types_header_path(const Home& home, const std::string& stem);
std::string nested_header(const Home& home, const std::string& stem);
/// `file` beside the header of the public functions: pointwise_0.cpp.
std::string ops_file(const Home& home, const std::string& file);
std::string nested_source(const Home& home, const std::string& stem);

/// Words to qualify in code of other libraries than Deckle: `Tensor` becomes `deckle::Tensor` where it is not qualified yet.
/// Comments and literals stay as they are.
std::string with_deckle_names(const Home& home, const std::string& code);

}  // namespace opgen
