#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "deckle/base/small_vector.h"
#include "deckle/core/row_operand.h"
#include "deckle/core/tensor.h"

namespace deckle::autograd {

class Node;
class Gradients;
class GradientSink;
struct Meta;

/// Where a gradient goes: output `slot` of `node`. An empty edge leads nowhere: no gradient is wanted.
struct Edge {
  std::shared_ptr<Node> node;
  uint32_t slot = 0;
};

/// Shape and type of a node's output, for checking and for zeros.
struct OutputSpec {
  Dims sizes;
  DType dtype = DType::float32;
  Device device;
};

using GradientHook = std::function<Tensor(const Tensor& gradient)>;

/// A hook on one output; removed by emptying the function, wherever copies of this are.
struct Hook {
  uint32_t slot;
  std::shared_ptr<GradientHook> function;
};
void add_hook(std::vector<Hook>& hooks, Hook hook);

/// One recorded op: edges to where its inputs came from, and the rule that turns gradients of its outputs into gradients
/// of its inputs. Input slots are flattened in argument order; a tensor list takes one slot per element.
class Node : public std::enable_shared_from_this<Node> {
 public:
  Node();
  virtual ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  virtual std::string_view name() const = 0;
  virtual void backward(const Gradients& gradients, GradientSink& sink) = 0;
  /// Drops what was saved; a later backward through this node is an error.
  virtual void release() {}
  /// Whether the node runs on zeros where the pass reaches it and no gradient does: where a gradient is kept, zeros are.
  virtual bool wants_zeros() const { return !retained_.empty() && outputs_.size() == 1; }

  /// Appends the edges of all inputs, in order: Tensors (undefined ones take a slot too), TensorLists and RowOperands.
  template <typename... Inputs>
  void connect(const Inputs&... inputs) {
    edges_.reserve((slots(inputs) + ...));
    (connect_input(inputs), ...);
  }
  void add_edge(Edge edge) { edges_.push_back(std::move(edge)); }
  /// Declares the next output; returns its slot.
  uint32_t add_output(const Tensor& output);

  const std::vector<Edge>& edges() const { return edges_; }
  const std::vector<OutputSpec>& outputs() const { return outputs_; }
  uint64_t sequence() const { return sequence_; }
  void add_hook(Hook hook) { autograd::add_hook(hooks_, std::move(hook)); }
  /// The gradient of output `slot` is kept in the grad() of `variable` as long as that comes from this node.
  void retain(uint32_t slot, std::weak_ptr<Meta> variable) { retained_.emplace_back(slot, std::move(variable)); }
  /// Runs the hooks on the node's incoming gradients.
  void run_hooks(std::vector<Tensor>& gradients) const;
  /// Keeps the gradients that retain() asked for.
  void keep_retained(const std::vector<Tensor>& gradients) const;

 protected:
  uint64_t sequence_;

 private:
  static size_t slots(const Tensor&) { return 1; }
  static size_t slots(TensorList inputs) { return inputs.size(); }
  static size_t slots(const RowOperand&) { return 1; }
  void connect_input(const Tensor& input);
  void connect_input(TensorList inputs);
  void connect_input(const RowOperand& input) { connect_input(input.values()); }

  std::vector<Edge> edges_;
  std::vector<OutputSpec> outputs_;
  std::vector<Hook> hooks_;
  std::vector<std::pair<uint32_t, std::weak_ptr<Meta>>> retained_;
};

/// The gradients that arrived at a node, one per output.
class Gradients {
 public:
  Gradients(const std::vector<Tensor>& values, const Node& node) : values_(values), node_(node) {}

  bool defined(size_t slot) const { return slot < values_.size() && values_[slot].defined(); }
  /// The gradient of output `slot`; zeros where none arrived, made when they are asked for, once.
  Tensor operator[](size_t slot) const;
  size_t size() const { return node_.outputs().size(); }

 private:
  const std::vector<Tensor>& values_;
  const Node& node_;
  mutable std::vector<Tensor> zeros_;  // by slot
};

/// Takes the gradients of a node's inputs.
class GradientSink {
 public:
  using Wanted = SmallVector<bool, 16>;  // by slot
  GradientSink(Wanted wanted) : wanted_(std::move(wanted)), values_(wanted_.size()) {}

  /// Whether anybody wants the gradient of input slot `slot`.
  bool wants(size_t slot) const { return wanted_[slot]; }
  bool wants_any(size_t first, size_t count) const;
  void put(size_t slot, Tensor gradient) { values_[slot] = std::move(gradient); }
  /// Gradients of a tensor list whose first slot is `first`; throws if they are more than the slots, or not `count` where the
  /// length of the list is given.
  void put_list(size_t first, const std::vector<Tensor>& gradients);
  void put_list(size_t first, size_t count, const std::vector<Tensor>& gradients);
  std::vector<Tensor>& values() { return values_; }

 private:
  Wanted wanted_;
  std::vector<Tensor> values_;
};

/// Destroys what `pointer` owns later, in a loop, if this thread is already destroying a graph: a chain of a million
/// nodes must not recurse.
void release_deferred(std::shared_ptr<Node> pointer) noexcept;

}  // namespace deckle::autograd
