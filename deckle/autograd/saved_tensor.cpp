#include "deckle/autograd/saved_tensor.h"

#include "deckle/autograd/history.h"
#include "deckle/base/check.h"
#include "deckle/core/tensor_impl.h"

namespace deckle::autograd {
namespace {

/// A handle that later in-place writes to `tensor` do not rebase. A leaf that requires grad keeps its identity.
Tensor snapshot(const Tensor& tensor) {
  const std::shared_ptr<Node> node = grad_node(tensor);
  auto impl = std::make_shared<TensorImpl>(*tensor.impl());
  const std::shared_ptr<Meta>& meta = tensor.impl()->meta;
  if (meta != nullptr && (node != nullptr || !meta->requires_grad)) {
    impl->meta = std::make_shared<Meta>();
    impl->meta->node = node;
    impl->meta->slot = meta->slot;
    impl->meta->view = meta->view;
  }
  return Tensor(std::move(impl));
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
  auto impl = std::make_shared<TensorImpl>(*output.impl());
  slot_ = impl->meta != nullptr ? impl->meta->slot : 0;
  if (impl->tangents == nullptr) {  // tangents are set after this call: share the place where they will appear
    impl->tangents = std::make_shared<Tangents>();
    output.impl()->tangents = impl->tangents;
  }
  impl->meta = nullptr;
  tensor_ = Tensor(std::move(impl));
  version_ = output.version();
}

Tensor SavedTensor::get(const Node& owner) const {
  if (state_ == State::released) {
    fail(ErrorKind::runtime, "backward through {} a second time: its saved values were released (keep them with retain_graph)", owner.name());
  }
  if (!tensor_.defined()) return {};
  if (tensor_.version() != version_) {
    fail(ErrorKind::runtime, "a tensor of shape {} saved for the backward of {} was changed in place afterwards (version {}, saved at {})",
         to_string(tensor_.sizes()), owner.name(), tensor_.version(), version_);
  }
  if (state_ == State::input) return tensor_;
  auto impl = std::make_shared<TensorImpl>(*tensor_.impl());
  if (is_floating(impl->dtype)) {
    impl->meta = std::make_shared<Meta>();
    impl->meta->node = const_cast<Node&>(owner).shared_from_this();
    impl->meta->slot = slot_;
  }
  return Tensor(std::move(impl));
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
