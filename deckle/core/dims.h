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
#include "deckle/core/arguments.h"

namespace deckle {

/// An owning list of sizes, strides or dims.
class Dims : public SmallVector<int64_t, 6> {
 public:
  using SmallVector::SmallVector;
  Dims(std::span<const int64_t> values) : SmallVector(values.begin(), values.end()) {}

  std::span<const int64_t> first(size_t count) const& { return {data(), count}; }
  std::span<const int64_t> subspan(size_t from, size_t count = std::dynamic_extent) const& {
    return std::span<const int64_t>(data(), size()).subspan(from, count);
  }

  friend bool operator==(const Dims& a, const Dims& b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }
};

/// An integer in the braces of a list. Not a bool: GCC takes {.keepdim = true} for the list {true}, which is refused with this.
struct BracedInt {
  template <Integer T>
  BracedInt(T value) : value(detail::integer_of(value)) {}
  BracedInt(IntArg value) : value(value) {}

  int64_t value;
};
inline std::span<const int64_t> integers_of(std::initializer_list<BracedInt> list) {
  static_assert(sizeof(BracedInt) == sizeof(int64_t) && std::is_standard_layout_v<BracedInt>);
  return {reinterpret_cast<const int64_t*>(list.begin()), list.size()};
}

/// Whatever keeps integers side by side: a vector, an array, Dims, a span.
template <typename R>
concept IntegersInRow = requires(const R& values) {
  std::size(values);
  requires Integer<std::remove_cvref_t<decltype(*std::data(values))>>;
};

/// A list of integers as an argument: {2, 3}, one number, or whatever keeps integers side by side. It holds a copy of them.
class Ints : public Dims {
 public:
  Ints() = default;
  Ints(std::initializer_list<BracedInt> values) : Dims(integers_of(values)) {}
  template <Integer T>
  Ints(T value) : Dims(1, detail::integer_of(value)) {}
  Ints(IntArg value) : Dims(1, value) {}
  template <IntegersInRow R>
  Ints(const R& values) : Dims(std::data(values), std::data(values) + std::size(values)) {}
  template <NoInteger T>
  Ints(T /* an integer is expected, neither a bool nor a fraction */) = delete;
};

/// A read-only list of integers inside the library, where a copy would cost: from {2, 3}, one number, a vector, Dims or a span.
/// Never store one.
class IntSpan : public std::span<const int64_t> {
 public:
  using std::span<const int64_t>::span;
  IntSpan(const int64_t& value) : std::span<const int64_t>(&value, 1) {}
  template <NoInteger T>
  IntSpan(T) = delete;
  IntSpan(std::span<const int64_t> values) : std::span<const int64_t>(values) {}
  IntSpan(std::initializer_list<BracedInt> values) : std::span<const int64_t>(integers_of(values)) {}
  IntSpan(const std::vector<int64_t>& values) : std::span<const int64_t>(values) {}
  IntSpan(const Dims& values) : std::span<const int64_t>(values.data(), values.size()) {}

  friend bool operator==(IntSpan a, IntSpan b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }
};

inline bool operator==(const Dims& a, IntSpan b) { return IntSpan(a) == b; }

template <Integer T>
bool operator==(const Dims&, T) = delete;  // a shape is a list; numel() counts the elements, dim() the dims

/// Dims of a reduction as an argument: {0, 2}, one dim as a number, or nothing (all dims). It holds a copy of them.
class OptionalInts : public std::optional<Dims> {
 public:
  OptionalInts() = default;
  OptionalInts(std::nullopt_t) {}
  OptionalInts(const std::optional<Dims>& dims) : std::optional<Dims>(dims) {}
  OptionalInts(std::initializer_list<BracedInt> dims) : std::optional<Dims>(integers_of(dims)) {}
  template <Integer T>
  OptionalInts(T dim) : std::optional<Dims>(Ints(dim)) {}
  OptionalInts(IntArg dim) : std::optional<Dims>(Ints(dim)) {}
  template <IntegersInRow R>
  OptionalInts(const R& dims) : std::optional<Dims>(Ints(dims)) {}
  template <NoInteger T>
  OptionalInts(T /* a dim is an integer; keepdim comes after it: sum(x, {}, true) */) = delete;
  template <typename E>
  requires(std::is_enum_v<E> && !Integer<E>) OptionalInts(E /* no dim: x.to(DType::float64).sum() has the dtype */)
  = delete;
};

/// The first field of options that stand where a list of dims may: {1} is such a list, options are named.
struct ByName {
  ByName() {}
};

/// `x.sum(0, {.keepdim = true})`, which no reduction takes.
struct KeepdimByName {
  ByName by_name = {};
  bool keepdim = false;
};

/// "[4, 7]".
std::string to_string(IntSpan values);

/// Product; throws when it overflows 64 bits or a size is negative.
int64_t numel_of(IntSpan sizes);

/// Row-major strides of `sizes`, in elements.
Dims contiguous_strides(IntSpan sizes);

/// Whether no two elements share a place in memory. Strides that interleave without meeting, as [3, 2] for shape [2, 3],
/// are taken for sharing.
bool distinct_places(IntSpan sizes, IntSpan strides);

/// `dim` in [-rank, rank) as [0, rank); throws naming the shape. A rank of 0 counts as 1, as in PyTorch.
int64_t wrap_dim(int64_t dim, IntSpan sizes);

/// The common shape of a and b under NumPy's rules; throws naming both.
Dims broadcast_shapes(IntSpan a, IntSpan b);

}  // namespace deckle

/// As to_string.
template <>
struct fmt::formatter<deckle::IntSpan> {
  constexpr auto parse(format_parse_context& context) { return context.begin(); }
  format_context::iterator format(deckle::IntSpan values, format_context& context) const;
};

template <>
struct fmt::formatter<deckle::Dims> : formatter<deckle::IntSpan> {};
