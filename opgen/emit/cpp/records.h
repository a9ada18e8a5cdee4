#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "opgen/ir/op.h"

namespace opgen::cpp {

// A record is one struct in C++, of tensors for ops and of views for kernels. Within the functions of an op its fields stand
// alone, as x_q and so on.

std::string print_record(const RecordType& record);
/// The struct that kernels get: AttentionInputsView.
std::string view_name(const RecordType& record);
std::string print_view_record(const RecordType& record);

/// `const auto& [x_q, x_k] = x;` for each argument, or each result, that is a record.
std::string unpack_records(const Op& op);
std::string unpack_results(const Op& op);
/// One text for each parameter, of one for each argument: records are written out, without the fields whose text is "".
std::vector<std::string> whole(const Op& op, const std::vector<std::string>& texts);
/// Statements that take the value of a formula apart, `auto [a, b] = value;`, and the name of what is for each slot that is one.
struct Parts {
  std::string statements;
  std::vector<std::pair<size_t, std::string>> names;
};
Parts take_apart(const std::vector<Target>& targets, const std::string& value, const std::function<std::string(size_t)>& name,
                 const char* declaration);

/// What `return` gives, of the names of results: `y`, `{a, b}`, `AttentionOutputs{y_out, y_lse}`.
std::string result_value(const Op& op);

}  // namespace opgen::cpp
