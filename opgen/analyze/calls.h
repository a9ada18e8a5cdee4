#pragma once

#include <set>
#include <string>

#include "opgen/ir/program.h"

namespace opgen {

/// What the op's formulas and checks call.
std::set<const Op*> calls_of(const Op& op);
/// What a composite is made of: the calls of its formula, or, of a composite written in C++, the ops that its entry lists.
std::set<const Op*> parts_of(const Op& op);
/// Whether a formula calls a factory: an op that makes tensors from none, such as arange.
bool calls_factory(const Block& formula);
/// Whether it waits for the device of its operands: its entry says `host`, or that of an op that it is made of does.
bool waits_for_device(const Op& op);
/// What its gradient formulas call.
std::set<const Op*> reverse_calls(const Op& op);

/// No composite may reach itself.
void check_cycles(const Program& program, Problems& problems);

/// Which derivatives an op has, a composite through all that it is made of.
struct Derivatives {
  bool exist = false;                // in reverse mode; without, the results are constants
  std::set<std::string> no_forward;  // the ops, itself or those that it is made of, that have no forward mode
  std::set<std::string> no_second;   // and those whose gradients have none in turn
};
Derivatives derivatives_of(const Op& op);
/// The differentiable ops among the parts of a composite.
std::set<const Op*> made_of(const Op& op);

}  // namespace opgen
