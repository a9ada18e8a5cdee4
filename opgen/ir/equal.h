#pragma once

#include <string>
#include <vector>

#include "opgen/ir/term.h"

/// What finding common sub-expressions asks of a term.
namespace opgen {

/// Equal for terms that are the same over the same arguments, which have these numbers.
std::string equality_key(const Term& term, const std::vector<size_t>& arguments);
/// How many of its arguments, from the first on, are evaluated whenever it is: of a condition, && and || only the first.
size_t always_evaluated(const Term& term);
/// Whether it is a call whose result may stand for that of an equal one: none that draws numbers, writes or copies.
bool may_be_shared(const Term& term);

}  // namespace opgen
