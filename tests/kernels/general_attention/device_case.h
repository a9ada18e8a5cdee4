// The passes of the general kernels on a case in host memory: they run on copies on the device, or, emulated, in place.
#pragma once

#include "tests/kernels/cpu/attention/attention_case.h"

namespace deckle::testing::general {

/// Empty, or why nothing can run here.
std::string why_not();

void forward(const AttentionCase& c, const Operands& x, const Results& y);
void backward(const AttentionCase& c, const Operands& x, const Results& y, const Results& dy, const Operands& dx);
void jvp(const AttentionCase& c, const Operands& x, const Operands& t, const Results& ty);
void second(const AttentionCase& c, const Operands& x, const Operands& t, const Results& y, const Results& dy, const Results& tdy,
            const Operands& tdx, const Results& ty);
void mixed(const AttentionCase& c, const Operands& x, const Operands& a, const Operands& b, const Operands& ab, const Results& y);

}  // namespace deckle::testing::general
