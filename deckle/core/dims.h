#pragma once

#include <fmt/core.h>

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "deckle/base/small_vector.h"

namespace deckle {

/// An owning list of sizes, strides or dims.
class Dims : public SmallVector<int64_t, 6> {
 public:
  using SmallVector::SmallVector;
  Dims(std::span<const int64_t> values) : SmallVector(values.begin(), values.end()) {}

  friend bool operator==(const Dims& a, const Dims& b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }
};

/// What converts to an integer and is none: x.argmax(true) and x.softmax(1.5) are no dims.
template <typename T>
concept NoInteger = std::floating_point<T> || std::same_as<T, bool>;

/// An integer in the braces of a list. Not a bool: GCC takes {.keepdim = true} for the list {true}, which is refused with this.
struct BracedInt {
  template <std::integral T>
  requires(!std::same_as<T, bool>) BracedInt(T value) : value(static_cast<int64_t>(value)) {}

  int64_t value;
};
inline std::span<const int64_t> integers_of(std::initializer_list<BracedInt> list) {
  static_assert(sizeof(BracedInt) == sizeof(int64_t) && std::is_standard_layout_v<BracedInt>);
  return {reinterpret_cast<const int64_t*>(list.begin()), list.size()};
}

/// A read-only list of integers as an argument: from {2, 3}, one number, a vector, Dims or a span. Never store one.
class Ints : public std::span<const int64_t> {
 public:
  using std::span<const int64_t>::span;
  Ints(const int64_t& value) : std::span<const int64_t>(&value, 1) {}
  template <typename T>
  requires NoInteger<T> Ints(T /* a size is an integer */)
  = delete;
  Ints(std::span<const int64_t> values) : std::span<const int64_t>(values) {}
  Ints(std::initializer_list<BracedInt> values) : std::span<const int64_t>(integers_of(values)) {}
  Ints(const std::vector<int64_t>& values) : std::span<const int64_t>(values) {}
  Ints(const Dims& values) : std::span<const int64_t>(values.data(), values.size()) {}

  friend bool operator==(Ints a, Ints b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }
};

inline bool operator==(const Dims& a, Ints b) { return Ints(a) == b; }

/// Dims of a reduction as an argument: {0, 2}, one dim as a number, or nothing (all dims). Never store one.
class OptionalInts : public std::optional<Ints> {
 public:
  OptionalInts() = default;
  OptionalInts(std::nullopt_t) {}
  OptionalInts(std::optional<Ints> dims) : std::optional<Ints>(dims) {}
  OptionalInts(Ints dims) : std::optional<Ints>(dims) {}
  OptionalInts(const Dims& dims) : std::optional<Ints>(Ints(dims)) {}
  OptionalInts(const std::vector<int64_t>& dims) : std::optional<Ints>(Ints(dims)) {}
  OptionalInts(std::initializer_list<BracedInt> dims) : std::optional<Ints>(Ints(dims)) {}
  OptionalInts(const int64_t& dim) : std::optional<Ints>(Ints(dim)) {}
  template <typename T>
  requires NoInteger<T> OptionalInts(T /* a dim is an integer; keepdim comes after it: sum(x, {}, true) */)
  = delete;
};

/// The first field of options that stand where a list of dims may: {1} is such a list, options are named.
struct ByName {
  ByName() {}
};

/// "[4, 7]".
std::string to_string(Ints values);

/// Product; throws when it overflows 64 bits or a size is negative.
int64_t numel_of(Ints sizes);

/// Row-major strides of `sizes`, in elements.
Dims contiguous_strides(Ints sizes);

/// Whether no two elements share a place in memory. Strides that interleave without meeting, as [3, 2] for shape [2, 3],
/// are taken for sharing.
bool distinct_places(Ints sizes, Ints strides);

/// `dim` in [-rank, rank) as [0, rank); throws naming the shape. A rank of 0 counts as 1, as in PyTorch.
int64_t wrap_dim(int64_t dim, Ints sizes);

/// The common shape of a and b under NumPy's rules; throws naming both.
Dims broadcast_shapes(Ints a, Ints b);

}  // namespace deckle

/// As to_string.
template <>
struct fmt::formatter<deckle::Ints> {
  constexpr auto parse(format_parse_context& context) { return context.begin(); }
  format_context::iterator format(deckle::Ints values, format_context& context) const;
};

template <>
struct fmt::formatter<deckle::Dims> : formatter<deckle::Ints> {};
