#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace opgen {

/// The candidate nearest to `name` by edit distance, or "" if none is near enough to be what was meant.
std::string nearest(std::string_view name, const std::vector<std::string>& candidates);

/// "; did you mean 'x'?", or "".
std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates);

/// The words between separators, one more than these; blanks and line ends are left out.
std::vector<std::string> split(std::string_view text, char separator);

/// "a, b, c".
std::string join(const std::vector<std::string>& parts, std::string_view separator = ", ");

/// The whole number that `text` is, sign included; nullopt if it is none or does not fit.
std::optional<int64_t> whole_number(std::string_view text);
/// "010", which is 8 in C++: no number anywhere in an entry.
bool is_octal(std::string_view text);

/// softmax_backward -> SoftmaxBackward, gate_1 -> Gate_1: what is no letter keeps its underscore, or names would become one.
std::string pascal_case(std::string_view name);

/// `text` with `spaces` blanks before every line that is not empty.
std::string indent(std::string_view text, int spaces);

/// `text` as a C++ string literal.
std::string quote(std::string_view text);

/// Splits long parameter or argument lists: `head(a, b, c)tail` in one line if it fits into 120 columns, else wrapped after
/// commas and aligned with the opening parenthesis.
std::string wrap(std::string_view head, const std::vector<std::string>& parts, std::string_view tail);

/// Writes `contents` to `path` unless the file holds just that; true if it wrote. A file of which only documentation changes,
/// lines that begin with `///`, keeps its time: nothing is compiled again for it.
bool write_if_changed(const std::string& path, const std::string& contents);

}  // namespace opgen
