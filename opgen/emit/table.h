#pragma once
#include "opgen/emit/files.h"
namespace opgen {
inline void emit_table(const Library&, Files&, Problems&) {}
}
