#pragma once
#include "opgen/emit/files.h"
namespace opgen {
inline void emit_tests(const Library&, const OutputOptions&, Files&, Problems&) {}
}
