#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "deckle/base/error.h"
#include "deckle/nn/module.h"

namespace deckle::nn {

/// Modules, or functions of one tensor without members, one after another:
///   nn::Sequential net(nn::Linear(784, 128), nn::ReLU(), nn::Linear(128, 10));
/// A copy has layers of its own, in a mode of their own, which hold the same parameters. Parameters are named by the layers'
/// numbers: "0.weight".
class Sequential final : public Module {
 public:
  Sequential() = default;
  Sequential(const Sequential& other) : Module(other) {
    for (const auto& layer : other.layers_) layers_.push_back(layer->clone());
  }
  Sequential(Sequential&&) = default;
  Sequential& operator=(Sequential other) {
    Module::operator=(other);
    layers_ = std::move(other.layers_);
    return *this;
  }
  template <typename First, typename... Rest>
  requires(!std::same_as<std::remove_cvref_t<First>, Sequential> || sizeof...(Rest) > 0) explicit Sequential(First first,
                                                                                                             Rest... rest) {
    append(std::move(first));
    (append(std::move(rest)), ...);
  }

  template <typename Layer>
  void append(Layer layer) {
    static_assert(std::derived_from<Layer, Module> || std::is_empty_v<Layer> || std::is_function_v<std::remove_pointer_t<Layer>>,
                  "a layer that has members derives from nn::Module (by value), so that its parameters are found");
    static_assert(std::is_invocable_r_v<Tensor, const Layer&, const Tensor&> ||
                      std::is_invocable_r_v<NestedTensor, const Layer&, const NestedTensor&>,
                  "a layer is called with one tensor, or one nested tensor, and returns one");
    layers_.push_back(std::make_unique<Holder<Layer>>(std::move(layer)));
  }
  size_t size() const { return layers_.size(); }

  template <TensorLike X>
  X operator()(const X& x) const {
    X value = x;
    for (const std::unique_ptr<AnyLayer>& layer : layers_) value = layer->call(value);
    return value;
  }

  void visit(StateVisitor& visitor) override {
    for (size_t i = 0; i < layers_.size(); ++i) {
      if (Module* const module = layers_[i]->module()) visitor.child(std::to_string(i), *module);
    }
  }

 private:
  struct AnyLayer {
    virtual ~AnyLayer() = default;
    virtual Tensor call(const Tensor& x) const = 0;
    virtual NestedTensor call(const NestedTensor& x) const = 0;
    virtual Module* module() = 0;
    virtual std::unique_ptr<AnyLayer> clone() const = 0;
  };

  template <typename Layer>
  struct Holder final : AnyLayer {
    explicit Holder(Layer given) : layer(std::move(given)) {}
    Tensor call(const Tensor& x) const override { return on(x); }
    NestedTensor call(const NestedTensor& x) const override { return on(x); }
    Module* module() override {
      if constexpr (std::derived_from<Layer, Module>) return &layer;
      return nullptr;
    }
    std::unique_ptr<AnyLayer> clone() const override {
      if constexpr (std::copy_constructible<Layer>) return std::make_unique<Holder>(layer);
      throw Error("a layer has no copy (expected copyable layers, or a Sequential that is moved)");
    }
    template <typename X>
    X on(const X& x) const {
      if constexpr (std::is_invocable_r_v<X, const Layer&, const X&>) return layer(x);
      throw Error(std::is_same_v<X, Tensor> ? "a layer takes nested tensors alone (expected one for dense tensors)"
                                            : "a layer takes dense tensors alone (expected one for nested tensors)");
    }

    Layer layer;
  };

  std::vector<std::unique_ptr<AnyLayer>> layers_;
};

}  // namespace deckle::nn
