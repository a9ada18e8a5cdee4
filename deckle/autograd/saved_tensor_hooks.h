#pragma once

#include <any>
#include <functional>
#include <memory>

#include "deckle/core/tensor.h"

namespace deckle {

namespace autograd {
struct SavedTensorFunctions {
  std::function<std::any(const Tensor&)> pack;
  std::function<Tensor(const std::any&)> unpack;
};

/// Those of the innermost guard on this thread; null without one.
const std::shared_ptr<const SavedTensorFunctions>& saved_tensor_functions();

/// No hooks on this thread inside the scope.
class NoSavedTensorHooks {
 public:
  NoSavedTensorHooks();
  ~NoSavedTensorHooks();
  NoSavedTensorHooks(const NoSavedTensorHooks&) = delete;
  NoSavedTensorHooks& operator=(const NoSavedTensorHooks&) = delete;

 private:
  std::shared_ptr<const SavedTensorFunctions> before_;
};
}  // namespace autograd

/// Inside the scope, on this thread, every tensor that an op saves for its backward goes through `pack`, and what that returns
/// is kept in its place (a file's name, the values in bfloat16, nothing at all if they can be computed again); the backward asks
/// `unpack` for it, once for each formula that reads it, maybe on another thread. Both see values without history and run without
/// recording or these hooks; the history is kept beside. `unpack` returns the shape, dtype and device that `pack` was given; what
/// lies otherwise, by strides, is copied. Of nested guards the innermost counts. What is saved while a forward-mode level is open
/// is kept as it is, as its tangents are.
class SavedTensorHooks {
 public:
  SavedTensorHooks(std::function<std::any(const Tensor&)> pack, std::function<Tensor(const std::any&)> unpack);
  ~SavedTensorHooks();
  SavedTensorHooks(const SavedTensorHooks&) = delete;
  SavedTensorHooks& operator=(const SavedTensorHooks&) = delete;

 private:
  std::shared_ptr<const autograd::SavedTensorFunctions> before_;
};

}  // namespace deckle
