#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "deckle/autograd/level.h"
#include "deckle/autograd/node.h"
#include "deckle/core/tensor.h"

namespace deckle::autograd {

using ViewFunction = std::function<Tensor(const Tensor& base)>;

enum class ViewKind : uint8_t { plain, multi_output, no_grad };

/// How a view comes from its base (never itself a view), so that history and tangents can be derived from the base's.
struct ViewInfo {
  Tensor base;
  ViewFunction replay;
  ViewKind kind = ViewKind::plain;
  uint64_t version = 0;  // of the storage when the view's node was made
};

/// The reverse-mode data of a tensor: shared by the handles that are the same variable.
struct Meta {
  bool requires_grad = false;  // set by the user on leaves; results have a node instead
  Tensor grad;
  std::shared_ptr<Node> node;
  uint32_t slot = 0;
  std::weak_ptr<Node> accumulator;
  std::vector<std::pair<uint32_t, GradientHook>> leaf_hooks;  // the accumulator comes and goes with graphs; its hooks stay here
  std::shared_ptr<ViewInfo> view;
  std::mutex mutex;

  Meta() = default;
  ~Meta() { release_deferred(std::move(node)); }
};

/// The forward-mode tangents of a tensor, at most one per level, ascending.
struct Tangents {
  std::vector<std::pair<Level, Tensor>> values;
};

/// The Meta of a defined tensor, made if it has none.
Meta& ensure_meta(const Tensor& tensor);

}  // namespace deckle::autograd
