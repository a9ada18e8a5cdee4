#pragma once

#include <array>
#include <concepts>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <variant>
#include <vector>

#include "deckle/core/tensor.h"

namespace deckle::nn {

class Module;

/// A member tensor that belongs to a module's state and is not trained, such as a running mean.
class Buffer : public Tensor {
 public:
  Buffer() = default;
  Buffer(Tensor tensor) : Tensor(std::move(tensor)) {}
};

namespace detail {

/// Where a member lies in its module.
struct Place {
  const void* address;
  size_t size;
  size_t alignment;
};

/// An Error if the object has bytes, besides padding, that are in no place: a member that is not listed.
void check_all_listed(const std::type_info& type, const Place& object, std::string_view names, std::vector<Place> places);
/// "a, b_" as {"a", "b"}.
std::vector<std::string> split_names(std::string_view names);

/// What is copied as a plain struct and leads to what may hold tensors.
template <typename T>
inline constexpr bool kRefers = false;
template <typename T>
inline constexpr bool kRefers<std::reference_wrapper<T>> = true;
template <typename T, size_t N>
inline constexpr bool kRefers<std::span<T, N>> = true;
template <typename T>
inline constexpr bool kRefers<T*> = true;
template <typename T, size_t N>
inline constexpr bool kRefers<T[N]> = kRefers<T>;
template <typename T, size_t N>
inline constexpr bool kRefers<std::array<T, N>> = kRefers<T>;
template <typename... T>
inline constexpr bool kRefers<std::variant<T...>> = (kRefers<T> || ...);

/// Members without tensors in them: numbers, strings, plain structs, and types that say so by `has_parameters = false`.
template <typename T>
concept WithoutTensors = std::same_as<T, std::string> ||(std::is_trivially_copyable_v<T> && !kRefers<T>) || requires {
  requires !T::has_parameters;
};

template <typename T>
inline constexpr bool kIsVector = false;
template <typename T>
inline constexpr bool kIsVector<std::vector<T>> = true;
template <typename T>
inline constexpr bool kIsHandle = false;
template <typename T>
inline constexpr bool kIsHandle<std::optional<T>> = true;
template <typename T>
inline constexpr bool kIsHandle<std::unique_ptr<T>> = true;
template <typename T>
inline constexpr bool kIsHandle<std::shared_ptr<T>> = true;
template <typename T>
inline constexpr bool kIsMap = false;
template <typename T>
inline constexpr bool kIsMap<std::map<std::string, T>> = true;

}  // namespace detail

/// Walks the members of modules under dotted names: "blocks.0.attention.query.weight".
class StateVisitor {
 public:
  using Action = std::function<void(const std::string& name, Tensor& tensor)>;
  struct Actions {
    Action parameter;
    Action buffer;
    std::function<void(Module& module)> module;  // every module, an outer one before those in it
  };
  explicit StateVisitor(Actions actions) : actions_(std::move(actions)) {}

  /// What DECKLE_MEMBERS calls. Tensors are parameters, Buffers buffers, undefined ones neither; modules, and vectors, maps,
  /// optionals and pointers of such members, are walked. An Error if the module has a member that is not listed.
  template <typename M, typename... Members>
  void members(M& module, std::string_view names, Members&... members) {
    detail::check_all_listed(typeid(module), {&module, sizeof(M), alignof(M)}, typeid(module) == typeid(M) ? names : "?",
                             {detail::Place{&members, sizeof(Members), alignof(Members)}...});
    const std::vector<std::string> split = detail::split_names(names);
    size_t i = 0;
    (member(split[i++], members), ...);
  }

 private:
  friend class Module;
  friend class Sequential;

  void child(const std::string& name, Module& module);
  void enter(Module& module);

  template <typename T>
  void member(const std::string& name, T& value) {
    if constexpr (std::derived_from<T, Buffer>) {
      if (value.defined() && actions_.buffer) actions_.buffer(prefix_ + name, value);
    } else if constexpr (std::same_as<T, Tensor>) {
      if (value.defined() && actions_.parameter) actions_.parameter(prefix_ + name, value);
    } else if constexpr (std::derived_from<T, Module>) {
      child(name, value);
    } else if constexpr (detail::kIsVector<T>) {
      for (size_t i = 0; i < value.size(); ++i) {
        if constexpr (!detail::WithoutTensors<typename T::value_type>) member(name + "." + std::to_string(i), value[i]);
      }
    } else if constexpr (detail::kIsMap<T>) {
      for (auto& [key, element] : value) member(name + "." + key, element);
    } else if constexpr (detail::kIsHandle<T>) {
      if (value) member(name, *value);
    } else {
      static_assert(detail::WithoutTensors<T>,
                    "a member of a module is a Tensor, a Buffer, a Module, a vector, map, optional or smart pointer of these, a "
                    "plain struct or a string; other types without tensors say static constexpr bool has_parameters = false;");
    }
  }

  Actions actions_;
  std::string prefix_;
};

}  // namespace deckle::nn

/// In the public part of a module, with ALL its members: how the library finds parameters and buffers. One that is left out is an
/// Error when the parameters are asked for.
#define DECKLE_MEMBERS(...)                                                                                                     \
  void visit(::deckle::nn::StateVisitor& visitor) override { visitor.members(*this, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__); } \
  static_assert(true, "")
