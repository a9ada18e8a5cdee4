#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>

#include "tests/ops/suite_support.h"

namespace deckle::suite {
namespace {

/// What a message may give in place of "(expected ...)": why the operands do not go together.
constexpr const char* kReasons[] = {"do not broadcast", "does not broadcast"};

/// The message of an error in a call of `op`: `op: ` once and first, then what was given, and what would be accepted or why not.
void expect_form(const Case& op, const Error& error) {
  const std::string& message = error.message();
  // The case of an overload is called op_Overload, or op_dim.
  const bool named = op.name == error.op() || (op.name.starts_with(error.op() + "_") &&
                                               (std::isupper(op.name[error.op().size() + 1]) || op.name.ends_with("_dim")));
  EXPECT_TRUE(named && message.starts_with(error.op() + ": "))
      << "the message does not begin with " << op.name << ": " << message;
  EXPECT_EQ(error.detail().find(error.op() + ": "), std::string::npos) << message;
  const bool reason = std::any_of(std::begin(kReasons), std::end(kReasons),
                                  [&](const char* text) { return error.detail().find(text) != std::string::npos; });
  EXPECT_TRUE(reason || (error.detail().find("(expected ") != std::string::npos && error.detail().ends_with(")")))
      << "the message does not say what is expected: " << message;
}

}  // namespace

void for_wrong_arguments(const Case& op, const std::function<void(size_t i, const Tensor& wrong)>& attempt) {
  for (size_t i = 0; i < op.tensors.size(); ++i) {
    if (!op.tensors[i].defined()) continue;
    for (const DType dtype : {DType::bool_, DType::int64, DType::float32}) {
      if (dtype != op.tensors[i].dtype()) attempt(i, of_values(op.tensors[i].sizes(), dtype, [](size_t) { return 0; }));
    }
    Dims more(op.tensors[i].sizes());
    more.insert(more.begin(), 2);
    attempt(i, of_values(more, op.tensors[i].dtype(), [](size_t) { return 0; }));
    if (op.tensors[i].dim() > 0) attempt(i, of_values({}, op.tensors[i].dtype(), [](size_t) { return 0; }));
  }
  for (size_t i = 0; i < op.tensors.size() && op.tensors.size() > 1; ++i) {
    if (!op.tensors[i].defined()) continue;
    for (int64_t dim = 0; dim < op.tensors[i].dim(); ++dim) {
      for (const int64_t change : {-1, 1}) {
        Dims sizes(op.tensors[i].sizes());
        if ((sizes[static_cast<size_t>(dim)] += change) < 0) continue;
        attempt(i, of_values(sizes, op.tensors[i].dtype(), [](size_t) { return 1; }));
      }
    }
  }
}

/// A result, or an Error in the one form, and never memory that is no tensor's, which the sanitizers see.
void check_wrong_arguments(const Case& op) {
  for_wrong_arguments(op, [&](size_t i, const Tensor& wrong) {
    Tensors tensors = op.tensors;
    tensors[i] = wrong;
    try {
      called(op, tensors);
    } catch (const Error& error) {
      expect_form(op, error);
    }
  });
}

}  // namespace deckle::suite
