#include "opgen/analyze/condition_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>

namespace opgen {
namespace {

double number_of(const std::string& text) { return std::strtod(text.c_str(), nullptr); }

bool is_number(const std::string& text) {
  char* end = nullptr;
  std::strtod(text.c_str(), &end);
  return end != text.c_str() && *end == 0;
}

}  // namespace

bool compares(const std::string& value, Operator operation, const std::string& other) {
  switch (operation) {
    case Operator::equal:
      return is_number(other) ? number_of(value) == number_of(other) : value == other;
    case Operator::not_equal:
      return !compares(value, Operator::equal, other);
    case Operator::less:
      return number_of(value) < number_of(other);
    case Operator::less_equal:
      return number_of(value) <= number_of(other);
    default:
      return !compares(value, operation == Operator::greater ? Operator::less_equal : Operator::less, other);
  }
}

std::vector<std::string> values_around(const std::vector<std::string>& written, bool whole, bool count) {
  if (!std::all_of(written.begin(), written.end(), is_number)) {
    std::vector<std::string> values = written;
    values.emplace_back("another");
    return values;
  }
  std::set<double> numbers;
  for (const std::string& text : written) {
    const double number = number_of(text), below = whole ? std::floor(number) : number,
                 above = whole ? std::ceil(number) : number;
    numbers.insert({below - 1, below, above, above + 1});
  }
  const std::vector<double> sorted(numbers.begin(), numbers.end());
  for (size_t i = 1; i < sorted.size() && !whole; ++i) numbers.insert((sorted[i - 1] + sorted[i]) / 2);
  std::vector<std::string> values;
  for (const double number : numbers) {
    if (!count || number >= 0) values.push_back(fmt::format("{}", number));
  }
  return values;
}

bool is_floating_dtype(const std::string& dtype) { return dtype.find("float") != std::string::npos; }

std::vector<std::string> dtypes_around(const std::vector<std::string>& written) {
  std::vector<std::string> dtypes = written;
  for (const bool floating : {true, false}) {
    for (const char* dtype : {"float64", "float32", "bfloat16", "float16", "int64", "int32", "uint8", "bool"}) {
      if (is_floating_dtype(dtype) != floating || std::find(written.begin(), written.end(), dtype) != written.end()) continue;
      dtypes.emplace_back(dtype);
      break;
    }
  }
  return dtypes;
}

}  // namespace opgen
