#pragma once

#include <string>

#include "opgen/ir/op.h"

namespace opgen::dump {

/// A formula as it was understood: every name with what it stands for, every call with the signature that was chosen, every
/// conversion.
std::string text_of(const Term& term);

/// One op as printers see it: what it saves, its formulas, the orders of derivatives that exist.
std::string text_of(const Op& op);

}  // namespace opgen::dump
