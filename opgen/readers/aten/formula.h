#pragma once

#include "opgen/formula/expr.h"
#include "opgen/text/source.h"

namespace opgen::aten {

/// The name of the call that stands for a lambda, whose body is not read.
inline constexpr const char* kLambda = "<lambda>";

/// Parses a C++ expression, as derivative formulas hold it, into the trees of our own formulas; throws Problem. What C++ needs
/// and the mathematics does not is gone then: namespaces, comments, `_symint` and `sym_` (an int is an int),
/// `std::optional<T>(x)`; `p->f()` is `p.f()`, `*p` is `p.value()`, `std::get<1>(x)` is `x[1]`, `{a, b}` is a list, `Tensor()`
/// and `nullopt` are `none`, `std::vector<T>(n, x)` is `repeated(n, x)`, `a & b` is `bitwise_and(a, b)`.
ExprPtr parse_cpp_formula(const Text& text);

}  // namespace opgen::aten
