#pragma once

#include <concepts>
#include <filesystem>
#include <string>
#include <vector>

#include "deckle/functional/traits.h"
#include "deckle/io/safetensors.h"
#include "deckle/nested/nested_tensor.h"

/// One pair of calls for everything made of tensors: a Tensor, a NestedTensor, vectors, pairs, tuples and structs of dense
/// tensors (functional/traits.h), a module or an optimizer.
///   io::save(model, "model.safetensors");
///   io::load(model, "model.safetensors");
namespace deckle::io {

/// Modules and optimizers.
template <typename T>
concept HasState = requires(T& value, const TensorMap& state) {
  { value.state() } -> std::convertible_to<TensorMap>;
  value.load_state(state);
};

namespace detail {
/// Whether a tree has nested tensors within, whose lengths its leaves do not hold.
template <typename T>
inline constexpr bool kHoldsNested = false;
template <>
inline constexpr bool kHoldsNested<NestedTensor> = true;
template <typename T>
inline constexpr bool kHoldsNested<std::vector<T>> = kHoldsNested<T>;
template <typename A, typename B>
inline constexpr bool kHoldsNested<std::pair<A, B>> = kHoldsNested<A> || kHoldsNested<B>;
template <typename... T>
inline constexpr bool kHoldsNested<std::tuple<T...>> = (kHoldsNested<T> || ...);
template <typename Type, typename Field>
inline constexpr bool kHoldsNested<Field Type::*> = kHoldsNested<Field>;
template <typename T>
requires requires { typename T::Tuple; }
inline constexpr bool kHoldsNested<T> = kHoldsNested<typename T::Tuple>;
template <typename T>
requires requires { T::fields; }
inline constexpr bool kHoldsNested<T> = kHoldsNested<std::remove_cvref_t<decltype(T::fields)>>;

/// The tensors of a tree under their numbers: "0", "1", ...
TensorMap number_leaves(const std::vector<Tensor>& leaves);
/// As many as there are in `like`, an Error otherwise.
std::vector<Tensor> from_numbered(const TensorMap& tensors, const std::vector<Tensor>& like, const std::filesystem::path& path);
}  // namespace detail

template <HasState T>
void save(const T& value, const std::filesystem::path& path) {
  save(TensorMap(value.state()), path);
}
template <HasState T>
void load(T& value, const std::filesystem::path& path) {
  value.load_state(load(path));
}

/// A tensor, with the name "tensor". What is loaded into a leaf that requires grad, a parameter, is copied into it: an optimizer
/// goes on with it.
void save(const Tensor& value, const std::filesystem::path& path);
void load(Tensor& value, const std::filesystem::path& path);
void save(const std::string& path, const Tensor&) = delete;  // what is saved comes first: save(x, path)

/// Packed values and the lengths of the components, of a nested tensor with one ragged dim. Into a leaf that requires grad the
/// values are copied, of components of the same lengths.
void save(const NestedTensor& value, const std::filesystem::path& path);
void load(NestedTensor& value, const std::filesystem::path& path);

/// A tree is loaded into one that has as many tensors; they may be undefined, else shapes and dtypes must agree.
template <functional::TensorTreeLike T>
requires(!HasState<T>) void save(const T& value, const std::filesystem::path& path) {
  static_assert(!detail::kHoldsNested<T>, "a nested tensor within is saved alone, or as values() and lengths()");
  save(detail::number_leaves(functional::to_leaves(value)), path);
}
template <functional::TensorTreeLike T>
requires(!HasState<T>) void load(T& value, const std::filesystem::path& path) {
  static_assert(!detail::kHoldsNested<T>, "a nested tensor within is saved alone, or as values() and lengths()");
  value = functional::from_leaves(value, detail::from_numbered(load(path), functional::to_leaves(value), path));
}

/// An empty vector takes all that there are.
inline void load(std::vector<Tensor>& value, const std::filesystem::path& path) {
  const TensorMap tensors = load(path);
  if (value.empty()) value.resize(tensors.size());
  value = detail::from_numbered(tensors, value, path);
}

/// `Tensor x = io::load<Tensor>("x.safetensors");`
template <typename T>
requires std::default_initializable<T> T load(const std::filesystem::path& path) {
  T value;
  load(value, path);
  return value;
}

}  // namespace deckle::io
