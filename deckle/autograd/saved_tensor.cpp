#include "deckle/autograd/saved_tensor.h"

#include <fmt/format.h>

#include "deckle/autograd/forward_mode.h"
#include "deckle/autograd/history.h"
#include "deckle/autograd/public_ops.h"
#include "deckle/autograd/saved_tensor_hooks.h"
#include "deckle/base/check.h"
#include "deckle/core/tensor_impl.h"

namespace deckle::autograd {
namespace {

/// A handle on the elements and tangents of `tensor` without its history. Of a view it keeps the base, where the tangents are,
/// without the base's history either: that may come to lead back to whoever keeps this handle, which would be a cycle.
Tensor bare(const Tensor& tensor) {
  auto impl = std::make_shared<TensorImpl>(*tensor.impl());
  impl->meta = nullptr;
  const Tensor& base = base_of(tensor);
  if (!base.is_same(tensor)) {
    auto elements = std::make_shared<TensorImpl>(*base.impl());
    elements->meta = nullptr;
    impl->meta = std::make_shared<Meta>();
    impl->meta->base = Tensor(std::move(elements));
  }
  return Tensor(std::move(impl));
}

/// The same elements and tangents as output `slot` of `node`.
Tensor with_history(const Tensor& tensor, std::shared_ptr<Node> node, uint32_t slot) {
  auto impl = std::make_shared<TensorImpl>(*tensor.impl());
  auto meta = std::make_shared<Meta>();
  if (impl->meta != nullptr) meta->base = impl->meta->base;
  meta->node = std::move(node);
  meta->slot = slot;
  impl->meta = std::move(meta);
  return Tensor(std::move(impl));
}

/// How the elements of a tensor lie: kernels that read a saved one take it as their op left it.
struct Layout {
  static constexpr uintptr_t kPiece = 16;  // bytes that kernels read at once
  Dims strides;
  bool in_pieces;  // the first element is where one begins

  explicit Layout(const Tensor& x) : strides(x.strides()), in_pieces(reinterpret_cast<uintptr_t>(address(x)) % kPiece == 0) {}
  bool serves_as(const Layout& other) const { return strides == other.strides && (in_pieces || !other.in_pieces); }
};

/// Whether the hooks of this thread are to pack what is saved.
bool packs() { return saved_tensor_functions() != nullptr && open_levels() == 0; }

[[noreturn]] void fail_changed(IntSpan sizes, const Node& owner, uint64_t version, uint64_t saved) {
  fail(ErrorKind::runtime,
       "a tensor of shape {} saved for the backward of {} was changed in place afterwards (version {}, saved at {})",
       to_string(sizes), owner.name(), version, saved);
}

}  // namespace

struct SavedTensor::Packed {
  std::shared_ptr<const SavedTensorFunctions> functions;
  std::any value;
  std::weak_ptr<Storage> storage;  // of what was packed: as long as `unpack` returns it, writes to it count
  Dims sizes;
  Layout layout;
  DType dtype;
  Device device;

  explicit Packed(const Tensor& tensor)
      : functions(saved_tensor_functions()),
        storage(tensor.storage()),
        sizes(tensor.sizes()),
        layout(tensor),
        dtype(tensor.dtype()),
        device(tensor.device()) {
    const NoGrad quiet;
    const NoSavedTensorHooks plain;
    value = functions->pack(tensor.detach());
  }
};

SavedTensor::~SavedTensor() { release_deferred(std::move(origin_)); }

void SavedTensor::save(const Tensor& input) {
  state_ = State::input;
  if (!input.defined()) return;
  version_ = input.version();
  Edge edge = origin(input);
  if (edge.node == nullptr && requires_grad(input)) leaf_ = input.impl()->meta;
  origin_ = std::move(edge.node);
  slot_ = edge.slot;
  packs() ? void(packed_ = std::make_shared<const Packed>(input)) : void(tensor_ = bare(input));
}

void SavedTensor::save_output(const Tensor& output) {
  // A result that was not attached is a constant: as output 0 of its node it would take that one's second derivatives.
  const bool attached = output.impl()->meta != nullptr;
  state_ = attached ? State::output : State::input;
  slot_ = attached ? output.impl()->meta->slot : 0;
  version_ = output.version();
  if (packs()) {
    packed_ = std::make_shared<const Packed>(output);
    return;
  }
  // Tangents are set after this call: share the place where they will appear.
  std::shared_ptr<Tangents>& tangents = base_of(output).impl()->tangents;
  if (tangents == nullptr && open_levels() > 0) tangents = std::make_shared<Tangents>();
  tensor_ = bare(output);
}

Tensor SavedTensor::unpack(const Node& owner) const {
  Tensor value;
  {
    const NoGrad quiet;
    const NoSavedTensorHooks plain;
    value = packed_->functions->unpack(packed_->value);
  }
  check(
      value.defined() && value.sizes() == packed_->sizes && value.dtype() == packed_->dtype && value.device() == packed_->device,
      "unpack of SavedTensorHooks returned {} for a {} tensor of shape {} on {} saved for the backward of {} (expected such a "
      "one)",
      value.defined() ? fmt::format("a {} tensor of shape {} on {}", name(value.dtype()), value.sizes(), value.device())
                      : "an undefined tensor",
      name(packed_->dtype), packed_->sizes, packed_->device, owner.name());
  if (value.storage() == packed_->storage.lock() && value.version() != version_) {
    fail_changed(packed_->sizes, owner, value.version(), version_);
  }
  if (Layout(value).serves_as(packed_->layout)) return value.detach();
  const NoGrad quiet;
  const NoSavedTensorHooks plain;
  return value.is_contiguous() ? clone(value) : contiguous(value);
}

Tensor SavedTensor::get(const Node& owner) const {
  if (state_ == State::released) {
    fail(ErrorKind::runtime, "backward through {} a second time: its saved values were released (keep them with retain_graph)",
         owner.name());
  }
  const bool packed = packed_ != nullptr;
  if (!packed && !tensor_.defined()) return {};
  if (!packed && tensor_.version() != version_) fail_changed(tensor_.sizes(), owner, tensor_.version(), version_);
  const Tensor value = packed ? unpack(owner) : tensor_;
  if (!grad_enabled() || !is_floating(value.dtype())) return value;
  if (state_ == State::output) return with_history(value, const_cast<Node&>(owner).shared_from_this(), slot_);
  if (origin_ != nullptr) return with_history(value, origin_, slot_);
  if (leaf_ == nullptr) return value;
  auto impl = std::make_shared<TensorImpl>(*value.impl());
  impl->meta = leaf_;
  return Tensor(std::move(impl));
}

void SavedTensor::reset() {
  tensor_ = {};
  packed_ = nullptr;
  leaf_ = nullptr;
  release_deferred(std::move(origin_));
  origin_ = nullptr;
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

void SavedTensors::save(TensorList inputs, std::initializer_list<TensorList> readers) {
  tensors_.resize(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (requires_grad_at(i, readers)) tensors_[i].save(inputs[i]);
  }
}

void SavedTensors::save_outputs(TensorList outputs, std::initializer_list<TensorList> readers) {
  tensors_.resize(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (requires_grad_at(i, readers)) tensors_[i].save_output(outputs[i]);
  }
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
