#pragma once

#include <optional>
#include <vector>

#include "opgen/analyze/degree.h"
#include "opgen/ir/op.h"

namespace opgen {

/// Whether a result of an op is linear in those of its arguments that are, together, as its entry says or its gradients show;
/// nullopt where neither says anything. It has no formula itself: of these the formula tells.
std::optional<bool> is_linear(const Op& op, const std::vector<Degree>& degrees, size_t result);

/// A linear argument through which nothing is differentiated.
std::optional<size_t> constant_in(const Op& op, const std::vector<Degree>& degrees);

}  // namespace opgen
