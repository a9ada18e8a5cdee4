// What Printer writes for literals, and where a value of one type serves as another.
#include <fmt/format.h>

#include <algorithm>

#include "opgen/emit/cpp/printer.h"
#include "opgen/emit/cpp/types.h"
#include "opgen/schema/dtypes.h"
#include "opgen/text/strings.h"

namespace opgen::cpp {

std::string list_literal(const std::string& braces, const Type& type) {
  if (type.base == Base::tensor) return "TensorList" + braces;
  if (type.base == Base::integer) return "Ints" + braces;
  return braces;
}

Printed Printer::literal(const Term& term) const {
  switch (term.type.base) {
    case Base::string:
      return {"std::string_view(" + quote(term.text) + ")"};  // a pointer would be compared, and taken for a bool
    case Base::dtype:
      return {dtype_cpp(term.text)};
    case Base::enumeration:
      return {term.type.enumeration->cpp() + "::" + term.text};
    case Base::none:
      return {"std::nullopt"};
    default:
      if (term.text == "inf") return {"std::numeric_limits<double>::infinity()"};
      if (term.text == "nan") return {"std::numeric_limits<double>::quiet_NaN()"};
      if (term.text == "pi") return {"3.14159265358979323846"};
      if (term.text == kLeastInteger) return {"std::numeric_limits<int64_t>::min()"};
      return {term.text, term.text[0] == '-' ? 6 : 8};
  }
}

Printed Printer::conversion(const Term& term) const {
  const Term& value = *term.arguments[0];
  const Type &from = value.type, &to = term.type;
  if (from.base == Base::none && !from.list) {
    if (to.is_tensor()) return {"Tensor()"};
    if (to.base == Base::record) return {to.record->cpp() + "{}"};
    if (to.is_list_of(Base::tensor)) return {"{}"};
    return {to.base == Base::generator ? "nullptr" : "std::nullopt"};
  }
  if (value.is(TermKind::list)) return {list_literal(print(value).text, to)};
  if (from.list && from.optional && !to.optional) return {"launch::dims_or_none(" + print(value).text + ")"};
  if (!from.list && to.list) {  // one for all
    const std::vector<std::string> all(static_cast<size_t>(std::max(1, to.length)), print(value).text);
    return {list_literal("{" + join(all) + "}", to)};
  }
  if (value.is(TermKind::literal) && from.is(Base::integer) && to.is(Base::integer) && !to.optional)
    return {"int64_t{" + value.text + "}"};
  if (value.is(TermKind::literal) && from.is(Base::integer) && to.is(Base::floating))
    return {value.text + ".0", value.text[0] == '-' ? 6 : 8};
  if (from.is(Base::scalar) && to.is(Base::floating)) return {within(value, 7) + ".to_double()"};
  return print(value);
}

}  // namespace opgen::cpp
