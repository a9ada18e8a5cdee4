#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace deckle::cli {

/// All ops with their entries' positions, by file.
std::string list_ops();

/// What every op does over the batch, ragged and regular dims of nested tensors: a Markdown table, which docs/nested.md holds.
std::string list_nested_ops();
/// The ops that compute on the host wherever their operands are, and those whose kernel is for the CPU alone, and why.
std::string list_host_ops();

/// Up to three of these names that `name` may have been meant for, quoted; "" if none is near.
std::string nearest_names(std::string_view name, const std::vector<std::string_view>& among);

/// What the entry of an op, or of one overload `add.Tensor`, says, and what follows from it; an Error, with the nearest names, if
/// there is no such op.
std::string explain_op(const std::string& name);

}  // namespace deckle::cli
