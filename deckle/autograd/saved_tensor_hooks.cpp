#include "deckle/autograd/saved_tensor_hooks.h"

#include <utility>

#include "deckle/base/check.h"

namespace deckle {
namespace {
thread_local std::shared_ptr<const autograd::SavedTensorFunctions> current;
}

const std::shared_ptr<const autograd::SavedTensorFunctions>& autograd::saved_tensor_functions() { return current; }

autograd::NoSavedTensorHooks::NoSavedTensorHooks() : before_(std::exchange(current, nullptr)) {}
autograd::NoSavedTensorHooks::~NoSavedTensorHooks() { current = std::move(before_); }

SavedTensorHooks::SavedTensorHooks(std::function<std::any(const Tensor&)> pack, std::function<Tensor(const std::any&)> unpack) {
  call_as("SavedTensorHooks",
          [&] { check(pack != nullptr && unpack != nullptr, "an empty function (expected one to pack and one to unpack)"); });
  before_ = std::exchange(current, std::make_shared<const autograd::SavedTensorFunctions>(std::move(pack), std::move(unpack)));
}

SavedTensorHooks::~SavedTensorHooks() { current = std::move(before_); }

}  // namespace deckle
