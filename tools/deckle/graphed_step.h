#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "deckle/core/cuda/graph.h"
#include "deckle/nested/capacity.h"
#include "deckle/nn/decoder.h"
#include "deckle/optim/adamw.h"

namespace deckle::cli {

/// What a training step found: the loss in nats per predicted byte, and the norm of the gradient before it was clipped. If one is
/// not finite, the parameters are as before.
struct StepResult {
  double loss = 0;
  double norm = 0;
  bool finite() const { return std::isfinite(loss) && std::isfinite(norm); }
};

/// A training step on a GPU as one cuda::Graph, for batches of changing lengths: they are copied into a room that is as large as
/// any was. A batch of more texts gets a larger room, and its graph is recorded anew.
///
/// The first step in a room runs without a graph, and has the bits that a replay would have: results depend on the batches and on
/// the rooms alone, so a run that is resumed begins with the room that it had.
class GraphedStep {
 public:
  struct Options {
    int64_t batches = 1;  // of a step
    int64_t tokens = 0;   // to predict in a batch, unless one text is longer
    int64_t longest = 0;  // rows of a text at most
    int64_t texts = 0;    // of a batch that there is room for at first
    double clip = 1;
    std::optional<DType> autocast;
  };
  /// The optimizer counts on the device from now on. Both must outlive this.
  GraphedStep(const nn::DecoderLM& model, optim::AdamW& optimizer, const Options& options);
  GraphedStep(const GraphedStep&) = delete;  // the graph refers to this
  GraphedStep& operator=(const GraphedStep&) = delete;

  StepResult run(std::span<const NestedTensor> batches, double lr);

  /// Texts of a batch that there is room for.
  int64_t texts() const { return options_.texts; }
  /// Steps that were given to the GPU. An Error of one that was not leaves parameters and optimizer as they were.
  int64_t steps() const { return steps_; }

 private:
  void make_room(int64_t texts);
  void load(std::span<const NestedTensor> batches);
  /// What is recorded: everything but the copy of the batches.
  void work();

  const nn::DecoderLM& model_;
  optim::AdamW& optimizer_;
  Options options_;
  std::vector<RaggedCapacity> rooms_;  // of each batch
  Tensor batches_;                     // int64 [batches, lengths and then tokens]
  Tensor failed_;                      // bool [1]: the optimizer takes no step
  Tensor result_;                      // float64: the loss of each batch, weighted by its share of the tokens, and the norm
  int64_t steps_ = 0;
  bool warm_ = false;  // a step was taken in these rooms
  std::optional<cuda::Graph> graph_;
};

}  // namespace deckle::cli
