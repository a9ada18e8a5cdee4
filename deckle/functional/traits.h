#pragma once

#include <concepts>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "deckle/base/check.h"
#include "deckle/core/tensor.h"

/// What the transforms take and return: anything made of tensors. Tensor, vectors, pairs and tuples of such things, and
/// structs that list their fields:
///   struct Layer { Tensor weight, bias; static constexpr auto fields = std::tuple(&Layer::weight, &Layer::bias); };
/// Others specialise TensorTree (NestedTensor does): flatten, unflatten, and check_like, which throws unless `given`, some
/// `what` such as "tangent", fits `like`; an undefined tensor stands for zeros and fits anything.
namespace deckle::functional {

template <typename T>
struct TensorTree;

template <typename T>
concept TensorTreeLike = requires(const T& value, std::vector<Tensor>& leaves, const Tensor*& next) {
  TensorTree<T>::flatten(value, leaves);
  TensorTree<T>::check_like(value, value, "tangent");
  { TensorTree<T>::unflatten(value, next) } -> std::convertible_to<T>;
};

template <>
struct TensorTree<Tensor> {
  static void flatten(const Tensor& value, std::vector<Tensor>& leaves) { leaves.push_back(value); }
  static Tensor unflatten(const Tensor&, const Tensor*& next) { return *next++; }
  static void check_like(const Tensor& like, const Tensor& given, const char* what) {
    if (!given.defined()) return;
    check(like.defined(), "a {} of shape {} for an undefined tensor (expected an undefined one)", what, given.sizes());
    check(given.sizes() == like.sizes(), "a {} of shape {} for a tensor of shape {} (expected the same)", what, given.sizes(),
          like.sizes());
    check(given.dtype() == like.dtype(), "a {} of dtype {} for a tensor of dtype {} (expected the same)", what,
          name(given.dtype()), name(like.dtype()));
  }
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
  static void check_like(const std::vector<T>& like, const std::vector<T>& given, const char* what) {
    check(given.size() == like.size(), "{} {}s for {} tensors (expected as many)", given.size(), what, like.size());
    for (size_t i = 0; i < like.size(); ++i) TensorTree<T>::check_like(like[i], given[i], what);
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
  static void check_like(const std::tuple<T...>& like, const std::tuple<T...>& given, const char* what) {
    [&]<size_t... I>(std::index_sequence<I...>) { (TensorTree<T>::check_like(std::get<I>(like), std::get<I>(given), what), ...); }
    (std::index_sequence_for<T...>());
  }
};

/// Results with names are tuples.
template <typename T>
requires requires { typename T::Tuple; }
struct TensorTree<T> : TensorTree<typename T::Tuple> {};

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
  static void check_like(const std::pair<A, B>& like, const std::pair<A, B>& given, const char* what) {
    TensorTree<A>::check_like(like.first, given.first, what);
    TensorTree<B>::check_like(like.second, given.second, what);
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
  static void check_like(const T& like, const T& given, const char* what) {
    std::apply([&](auto... field) { (check_field(like.*field, given.*field, what), ...); }, T::fields);
  }

 private:
  template <typename Field>
  static void flatten_field(const Field& field, std::vector<Tensor>& leaves) {
    TensorTree<Field>::flatten(field, leaves);
  }
  template <typename Field>
  static void check_field(const Field& like, const Field& given, const char* what) {
    TensorTree<Field>::check_like(like, given, what);
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

/// The tensors of `given`, which must fit `like`.
template <TensorTreeLike T>
std::vector<Tensor> matching_leaves(const T& like, const T& given, const char* what) {
  TensorTree<T>::check_like(like, given, what);
  return to_leaves(given);
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
