#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <vector>

#include "deckle/core/row_operand.h"
#include "deckle/core/tensor.h"

namespace deckle::autograd {

class Node;
struct Meta;

/// A tensor kept for the backward pass, with its history and every live tangent, or what a SavedTensorHooks guard packed it
/// into. Reading it after an in-place write to its storage, or after release, is an Error that names the op.
class SavedTensor {
 public:
  SavedTensor() = default;
  SavedTensor(SavedTensor&&) noexcept = default;
  SavedTensor& operator=(SavedTensor&&) = delete;
  ~SavedTensor();

  /// Keeps an input (may be undefined).
  void save(const Tensor& input);
  /// Keeps an output of the node that owns this; call it after attach. The node is not referenced, so there is no cycle.
  void save_output(const Tensor& output);
  /// What was kept; with its history while recording.
  Tensor get(const Node& owner) const;
  void reset();

 private:
  enum class State : uint8_t { empty, input, output, released };
  struct Packed;

  Tensor unpack(const Node& owner) const;

  Tensor tensor_;                         // elements and tangents, no history; undefined if packed
  std::shared_ptr<const Packed> packed_;  // shared, as its type is not known here
  std::shared_ptr<Node> origin_;          // of an input: with slot_, its history
  std::shared_ptr<Meta> leaf_;            // of an input that is a leaf and requires grad: its identity
  uint64_t version_ = 0;
  uint32_t slot_ = 0;
  State state_ = State::empty;
};

/// A list of SavedTensor.
class SavedTensors {
 public:
  void save(TensorList inputs);
  void save_outputs(TensorList outputs);
  /// The same of those elements alone that some list of `readers` wants: whose element of that number requires a gradient.
  void save(TensorList inputs, std::initializer_list<TensorList> readers);
  void save_outputs(TensorList outputs, std::initializer_list<TensorList> readers);
  std::vector<Tensor> get(const Node& owner) const;
  Tensor get(size_t element, const Node& owner) const { return tensors_[element].get(owner); }
  void reset();

 private:
  std::vector<SavedTensor> tensors_;
};

/// A SavedTensor and how its rows repeat.
class SavedRows {
 public:
  void save(const RowOperand& input) {
    values_.save(input.values());
    ragged_ = input.ragged();
  }
  RepeatedRows get(const Node& owner) const { return {values_.get(owner), ragged_}; }
  void reset() { values_.reset(); }

 private:
  SavedTensor values_;
  Ragged ragged_;
};

}  // namespace deckle::autograd

namespace deckle {
using autograd::SavedRows;
using autograd::SavedTensor;
using autograd::SavedTensors;
}  // namespace deckle
