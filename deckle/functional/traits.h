#pragma once

#include <concepts>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "deckle/core/tensor.h"

/// What the transforms take and return: anything made of tensors. Tensor, vectors, pairs and tuples of such things, and
/// structs that list their fields:
///   struct Layer { Tensor weight, bias; static constexpr auto fields = std::tuple(&Layer::weight, &Layer::bias); };
/// Others specialise TensorTree (NestedTensor does).
namespace deckle::functional {

template <typename T>
struct TensorTree;

template <typename T>
concept TensorTreeLike = requires(const T& value, std::vector<Tensor>& leaves, const Tensor*& next) {
  TensorTree<T>::flatten(value, leaves);
  { TensorTree<T>::unflatten(value, next) } -> std::convertible_to<T>;
};

template <>
struct TensorTree<Tensor> {
  static void flatten(const Tensor& value, std::vector<Tensor>& leaves) { leaves.push_back(value); }
  static Tensor unflatten(const Tensor&, const Tensor*& next) { return *next++; }
};

template <typename T>
struct TensorTree<std::vector<T>> {
  static void flatten(const std::vector<T>& value, std::vector<Tensor>& leaves) {
    for (const T& element : value) TensorTree<T>::flatten(element, leaves);
  }
  static std::vector<T> unflatten(const std::vector<T>& like, const Tensor*& next) {
    std::vector<T> result;
    for (const T& element : like) result.push_back(TensorTree<T>::unflatten(element, next));
    return result;
  }
};

template <typename... T>
struct TensorTree<std::tuple<T...>> {
  static void flatten(const std::tuple<T...>& value, std::vector<Tensor>& leaves) {
    std::apply([&](const T&... element) { (TensorTree<T>::flatten(element, leaves), ...); }, value);
  }
  static std::tuple<T...> unflatten(const std::tuple<T...>& like, const Tensor*& next) {
    return std::apply([&](const T&... element) { return std::tuple<T...>{TensorTree<T>::unflatten(element, next)...}; }, like);
  }
};

template <typename A, typename B>
struct TensorTree<std::pair<A, B>> {
  static void flatten(const std::pair<A, B>& value, std::vector<Tensor>& leaves) {
    TensorTree<A>::flatten(value.first, leaves);
    TensorTree<B>::flatten(value.second, leaves);
  }
  static std::pair<A, B> unflatten(const std::pair<A, B>& like, const Tensor*& next) {
    A first = TensorTree<A>::unflatten(like.first, next);
    return {std::move(first), TensorTree<B>::unflatten(like.second, next)};
  }
};

template <typename T>
  requires requires { T::fields; }
struct TensorTree<T> {
  static void flatten(const T& value, std::vector<Tensor>& leaves) {
    std::apply([&](auto... field) { (flatten_field(value.*field, leaves), ...); }, T::fields);
  }
  static T unflatten(const T& like, const Tensor*& next) {
    T result = like;
    std::apply([&](auto... field) { ((result.*field = unflatten_field(like.*field, next)), ...); }, T::fields);
    return result;
  }

 private:
  template <typename Field>
  static void flatten_field(const Field& field, std::vector<Tensor>& leaves) {
    TensorTree<Field>::flatten(field, leaves);
  }
  template <typename Field>
  static Field unflatten_field(const Field& like, const Tensor*& next) {
    return TensorTree<Field>::unflatten(like, next);
  }
};

/// The tensors of a tree, in order.
template <TensorTreeLike T>
std::vector<Tensor> to_leaves(const T& value) {
  std::vector<Tensor> leaves;
  TensorTree<T>::flatten(value, leaves);
  return leaves;
}

/// A tree shaped like `like` with these tensors.
template <TensorTreeLike T>
T from_leaves(const T& like, const std::vector<Tensor>& leaves) {
  const Tensor* next = leaves.data();
  return TensorTree<T>::unflatten(like, next);
}

/// f(x), or f(x...) if x is a tuple.
template <typename F, typename X>
decltype(auto) call(F& f, const X& x) {
  return f(x);
}
template <typename F, typename... X>
decltype(auto) call(F& f, const std::tuple<X...>& x) {
  return std::apply(f, x);
}

}  // namespace deckle::functional
