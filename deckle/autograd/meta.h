#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "deckle/autograd/level.h"
#include "deckle/autograd/node.h"
#include "deckle/core/tensor.h"

namespace deckle::autograd {

enum class ViewKind : uint8_t { plain, multi_output, no_grad };

/// The reverse-mode data of a tensor: shared by the handles that are the same variable.
struct Meta {
  bool requires_grad = false;  // set by the user on leaves; results have a node instead
  bool retains_grad = false;   // a result whose gradient is kept all the same
  Tensor grad;
  std::shared_ptr<Node> node;
  uint32_t slot = 0;
  std::weak_ptr<Node> accumulator;
  std::vector<Hook> leaf_hooks;  // the accumulator comes and goes with graphs; its hooks stay here

  // Of a view. How it lies in its base follows from both tensors (view_layout.h).
  Tensor base;  // never itself a view; undefined if this is none
  ViewKind kind = ViewKind::plain;
  uint64_t version = 0;  // of the storage when the view's node was made

  std::mutex mutex;  // for what changes when a tensor is only read: node, slot and version of a view, accumulator, grad

  Meta() = default;
  ~Meta() { release_deferred(std::move(node)); }
};

/// The forward-mode tangents of a tensor, at most one per level, ascending.
struct Tangents {
  std::vector<std::pair<Level, Tensor>> values;
};

/// The Meta of a tensor, made if it has none; throws if the tensor is undefined.
Meta& ensure_meta(const Tensor& tensor);

}  // namespace deckle::autograd
