// einsum: operands are multiplied from left to right, two at a time, each pair as one bmm.

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "deckle/base/check.h"
#include "deckle/ops/generated/arrange.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/linalg.h"
#include "deckle/ops/generated/matmul.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"

namespace deckle {
namespace {

/// A tensor whose dims have names: one letter each, all different.
struct Lettered {
  Tensor tensor;
  std::string letters;

  int64_t dim(char letter) const { return static_cast<int64_t>(letters.find(letter)); }
  bool has(char letter) const { return letters.find(letter) != std::string::npos; }

  /// Summed over the letters that are not in `kept`.
  void keep(const std::string& kept) {
    Dims dims;
    std::string left;
    for (size_t i = 0; i < letters.size(); ++i) {
      if (kept.find(letters[i]) == std::string::npos)
        dims.push_back(static_cast<int64_t>(i));
      else
        left += letters[i];
    }
    if (dims.empty()) return;
    const DType dtype = tensor.dtype();
    tensor = sum(tensor, dims);
    if (is_integral(dtype)) tensor = to(tensor, dtype);  // modulo the range of the dtype, as products are
    letters = left;
  }
  /// Its dims in the order of these letters, all of which it has.
  Tensor permute_to(const std::string& order) const {
    if (order == letters) return tensor;
    Dims dims;
    for (const char letter : order) dims.push_back(dim(letter));
    return permute(tensor, dims);
  }
  int64_t size(const std::string& of) const {
    int64_t product = 1;
    for (const char letter : of) product *= tensor.size(dim(letter));
    return product;
  }
};

/// A letter that stands several times takes the diagonal of its dims.
Lettered without_repeats(Lettered x) {
  for (size_t i = 0; i < x.letters.size(); ++i) {
    for (size_t j = i + 1; j < x.letters.size();) {
      if (x.letters[i] != x.letters[j]) {
        ++j;
        continue;
      }
      const char letter = x.letters[i];
      x.tensor = diagonal(x.tensor, 0, static_cast<int64_t>(i), static_cast<int64_t>(j));
      x.letters.erase(j, 1);
      x.letters.erase(i, 1);
      x.letters += letter;
      return without_repeats(std::move(x));
    }
  }
  return x;
}

/// The letters of `from` for which `holds`.
template <typename Holds>
std::string select_letters(const std::string& from, Holds&& holds) {
  std::string result;
  std::copy_if(from.begin(), from.end(), std::back_inserter(result), holds);
  return result;
}

/// [B, N, K] times [B, K, M]; of integers one by one, by mm.
Tensor products(const Tensor& a, const Tensor& b) {
  if (is_floating(a.dtype()) || is_floating(b.dtype())) return bmm(a, b);
  if (a.size(0) == 0) return zeros({0, a.size(1), b.size(2)}, a.dtype());
  std::vector<Tensor> each;
  for (int64_t batch = 0; batch < a.size(0); ++batch) each.push_back(mm(select(a, 0, batch), select(b, 0, batch)));
  return stack(each);
}

/// a times b, summed over what both have and `kept` has not.
Lettered product(Lettered a, Lettered b, const std::string& kept) {
  const auto is_kept = [&](char letter) { return kept.find(letter) != std::string::npos; };
  a.keep(kept + b.letters);
  b.keep(kept + a.letters);
  const std::string batch = select_letters(a.letters, [&](char letter) { return b.has(letter) && is_kept(letter); }),
                    inner = select_letters(a.letters, [&](char letter) { return b.has(letter) && !is_kept(letter); }),
                    rows = select_letters(a.letters, [&](char letter) { return !b.has(letter); }),
                    columns = select_letters(b.letters, [&](char letter) { return !a.has(letter); });
  const int64_t batches = a.size(batch), depth = a.size(inner), height = a.size(rows), width = b.size(columns);
  const Tensor result = products(reshape(a.permute_to(batch + rows + inner), {batches, height, depth}),
                                 reshape(b.permute_to(batch + inner + columns), {batches, depth, width}));
  Dims sizes;
  for (const char letter : batch + rows) sizes.push_back(a.tensor.size(a.dim(letter)));
  for (const char letter : columns) sizes.push_back(b.tensor.size(b.dim(letter)));
  return {reshape(result, sizes), batch + rows + columns};
}

struct Equation {
  std::vector<std::string> operands;
  std::string result;
};

constexpr std::string_view kEllipsis = "...", kDigits = "0123456789";

/// `...` as digits, one for each of the last `dims` dims that it stands for.
void name_ellipsis(std::string& letters, size_t dims) {
  const size_t at = letters.find(kEllipsis);
  if (at != std::string::npos) letters.replace(at, kEllipsis.size(), kDigits.substr(kDigits.size() - dims));
}

Equation parse(std::string_view equation, TensorList operands) {
  Equation parsed;
  std::string text;
  std::copy_if(equation.begin(), equation.end(), std::back_inserter(text), [](char c) { return c != ' '; });
  const size_t arrow = text.find("->");
  std::string left = text.substr(0, arrow);
  for (size_t comma; (comma = left.find(',')) != std::string::npos; left.erase(0, comma + 1))
    parsed.operands.push_back(left.substr(0, comma));
  parsed.operands.push_back(left);
  check(parsed.operands.size() == operands.size(), "'{}' names {} operands, {} are given (expected as many)", equation,
        parsed.operands.size(), operands.size());
  std::map<char, int> times;
  size_t most = 0;  // dims of an ellipsis
  for (size_t i = 0; i < operands.size(); ++i) {
    std::string& letters = parsed.operands[i];
    if (letters.find(kEllipsis) != std::string::npos) {
      const auto named = static_cast<int64_t>(letters.size() - kEllipsis.size()), rank = operands[i].dim();
      check(named <= rank && rank - named <= std::ssize(kDigits),
            "operand {} has shape {} for '{}' (expected a dim for each letter, and up to 10 for the ellipsis)", i,
            operands[i].sizes(), letters);
      most = std::max(most, static_cast<size_t>(rank - named));
      for (const char letter : letters)
        check(letter == '.' || std::isalpha(static_cast<unsigned char>(letter)) != 0,
              "'{}' has '{}' (expected letters, commas, ellipses and one ->)", equation, letter);
      name_ellipsis(letters, static_cast<size_t>(rank - named));
      for (const char letter : letters) ++times[letter];
      continue;
    }
    for (const char letter : letters) {
      check(std::isalpha(static_cast<unsigned char>(letter)) != 0,
            "'{}' has '{}' (expected letters, commas, ellipses and one ->)", equation, letter);
      ++times[letter];
    }
  }
  if (arrow == std::string::npos) {
    for (const auto& [letter, count] : times) {
      if (count == 1 || std::isdigit(static_cast<unsigned char>(letter)) != 0) parsed.result += letter;
    }
    return parsed;
  }
  parsed.result = text.substr(arrow + 2);
  name_ellipsis(parsed.result, most);
  for (size_t i = 0; i < parsed.result.size(); ++i) {
    const char letter = parsed.result[i];
    check(times.count(letter) > 0 && parsed.result.find(letter) == i,
          "the result of '{}' has '{}' (expected letters of the operands, each once)", equation, letter);
  }
  return parsed;
}

}  // namespace

Tensor composite::einsum(std::string_view equation, TensorList operands) {
  const Equation parsed = parse(equation, operands);
  std::map<char, int64_t> sizes;
  for (size_t i = 0; i < operands.size(); ++i) {
    check(static_cast<int64_t>(parsed.operands[i].size()) == operands[i].dim(),
          "operand {} has shape {} for '{}' (expected one dim for each letter)", i, operands[i].sizes(), parsed.operands[i]);
    for (int64_t dim = 0; dim < operands[i].dim(); ++dim) {
      int64_t& size = sizes.try_emplace(parsed.operands[i][static_cast<size_t>(dim)], 1).first->second;
      check(size == 1 || operands[i].size(dim) == 1 || size == operands[i].size(dim),
            "'{}' has sizes {} and {} in '{}' (expected one size, or 1)", parsed.operands[i][static_cast<size_t>(dim)], size,
            operands[i].size(dim), equation);
      if (operands[i].size(dim) != 1) size = operands[i].size(dim);
    }
  }
  std::vector<Lettered> factors;
  for (size_t i = 0; i < operands.size(); ++i) {
    Dims whole;
    for (const char letter : parsed.operands[i]) whole.push_back(sizes[letter]);
    const Tensor& operand = operands[i];
    factors.push_back(without_repeats({operand.sizes() == whole ? operand : expand(operand, whole), parsed.operands[i]}));
  }
  Lettered result = factors[0];
  for (size_t i = 1; i < factors.size(); ++i) {
    std::string kept = parsed.result;
    for (size_t later = i + 1; later < factors.size(); ++later) kept += factors[later].letters;
    result = product(std::move(result), factors[i], kept);
  }
  result.keep(parsed.result);
  return result.permute_to(parsed.result);
}

}  // namespace deckle
