#pragma once

#include "opgen/model/entry.h"

namespace opgen {

// The rules on a signature alone. Each throws Problem.

/// Names are identifiers of C++, and unique in the generated code.
void check_names(const Entry& entry);

/// Alias annotations describe what the generated code can keep: views of one tensor, or an op that writes its first argument.
void check_aliases(const Entry& entry);

/// Keyword-only arguments can be fields of a struct with defaults.
void check_options(const Entry& entry);

/// Default values are of their arguments' types.
void check_defaults(const Entry& entry);

/// A method is called on the first argument: `Tensor self`.
void check_method(const Entry& entry);

}  // namespace opgen
