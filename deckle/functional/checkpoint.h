#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "deckle/autograd/saved_tensor_hooks.h"
#include "deckle/functional/traits.h"

namespace deckle {

namespace functional {

/// While it lives, what ops save on this thread is not kept: the first backward that asks for one of these values calls
/// `run` again on detached `inputs`, under the same random numbers, and takes them from there.
class Recomputation {
 public:
  Recomputation(std::vector<Tensor> inputs, std::function<void(const std::vector<Tensor>&)> run);
  ~Recomputation();
  Recomputation(const Recomputation&) = delete;
  Recomputation& operator=(const Recomputation&) = delete;

 private:
  class Frame;
  std::shared_ptr<Frame> frame_;
  std::unique_ptr<SavedTensorHooks> hooks_;  // none if nothing is recorded
};

/// The same tree without history.
template <TensorTreeLike X>
X detach_all(const X& x) {
  std::vector<Tensor> leaves = to_leaves(x);
  for (Tensor& leaf : leaves) leaf = leaf.defined() ? leaf.detach() : leaf;
  return from_leaves(x, leaves);
}

}  // namespace functional

/// f(x), or f(x...) of a tuple, with a graph that keeps only x: what the ops inside would have saved for their backward is
/// computed again when it is asked for (activation checkpointing). All derivatives are those of f(x), of any order, also by
/// parameters that f captures. f must do the same each time; random numbers are drawn once, from any Generator. Nothing
/// that f reads may be written before the backward: an Error says so of x and of what f saves, but nobody sees a write to
/// another tensor that f captures. In forward mode nothing is dropped.
template <typename F, functional::TensorTreeLike X>
auto checkpoint(F f, const X& x) {
  const functional::Recomputation scope(functional::to_leaves(x),
                                        [f, like = functional::detach_all(x)](const std::vector<Tensor>& leaves) mutable {
                                          (void)functional::call(f, functional::from_leaves(like, leaves));
                                        });
  return functional::call(f, x);
}

}  // namespace deckle
