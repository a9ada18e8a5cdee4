#include "deckle/autograd/saved_tensor.h"

#include "deckle/autograd/forward_mode.h"
#include "deckle/autograd/history.h"
#include "deckle/base/check.h"
#include "deckle/core/tensor_impl.h"

namespace deckle::autograd {
namespace {

/// A handle on the elements and tangents of `tensor` with another history. Of a view it keeps the base, where the tangents
/// are, without the base's history: that may come to lead back to whoever keeps this handle, which would be a cycle.
Tensor with_origin(const Tensor& tensor, Edge origin) {
  auto impl = std::make_shared<TensorImpl>(*tensor.impl());
  const Tensor& base = base_of(tensor);
  const bool view = !base.is_same(tensor);
  impl->meta = nullptr;
  if (view || origin.node != nullptr) {
    impl->meta = std::make_shared<Meta>();
    impl->meta->node = std::move(origin.node);
    impl->meta->slot = origin.slot;
  }
  if (view) {
    auto bare = std::make_shared<TensorImpl>(*base.impl());
    bare->meta = nullptr;
    impl->meta->base = Tensor(std::move(bare));
  }
  return Tensor(std::move(impl));
}

/// A handle that later in-place writes to `tensor` do not rebase. A leaf that requires grad keeps its identity.
Tensor snapshot(const Tensor& tensor) {
  Edge edge = origin(tensor);
  const bool leaf = edge.node == nullptr && requires_grad(tensor);
  return leaf ? Tensor(std::make_shared<TensorImpl>(*tensor.impl())) : with_origin(tensor, std::move(edge));
}

}  // namespace

void SavedTensor::save(const Tensor& input) {
  state_ = State::input;
  if (!input.defined()) return;
  tensor_ = snapshot(input);
  version_ = input.version();
}

void SavedTensor::save_output(const Tensor& output) {
  state_ = State::output;
  slot_ = output.impl()->meta != nullptr ? output.impl()->meta->slot : 0;
  // Tangents are set after this call: share the place where they will appear.
  std::shared_ptr<Tangents>& tangents = base_of(output).impl()->tangents;
  if (tangents == nullptr && open_levels() > 0) tangents = std::make_shared<Tangents>();
  tensor_ = with_origin(output, {});
  version_ = output.version();
}

Tensor SavedTensor::get(const Node& owner) const {
  if (state_ == State::released) {
    fail(ErrorKind::runtime, "backward through {} a second time: its saved values were released (keep them with retain_graph)",
         owner.name());
  }
  if (!tensor_.defined()) return {};
  if (tensor_.version() != version_) {
    fail(ErrorKind::runtime,
         "a tensor of shape {} saved for the backward of {} was changed in place afterwards (version {}, saved at {})",
         to_string(tensor_.sizes()), owner.name(), tensor_.version(), version_);
  }
  if (state_ == State::input) return tensor_;
  if (!is_floating(tensor_.dtype())) return tensor_;
  return with_origin(tensor_, {const_cast<Node&>(owner).shared_from_this(), slot_});
}

void SavedTensor::reset() {
  tensor_ = {};
  state_ = State::released;
}

void SavedTensors::save(TensorList inputs) {
  tensors_.resize(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) tensors_[i].save(inputs[i]);
}

void SavedTensors::save_outputs(TensorList outputs) {
  tensors_.resize(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) tensors_[i].save_output(outputs[i]);
}

std::vector<Tensor> SavedTensors::get(const Node& owner) const {
  std::vector<Tensor> result;
  result.reserve(tensors_.size());
  for (const SavedTensor& tensor : tensors_) result.push_back(tensor.get(owner));
  return result;
}

void SavedTensors::reset() {
  for (SavedTensor& tensor : tensors_) tensor.reset();
}

}  // namespace deckle::autograd
