#pragma once

#include <string>
#include <vector>

#include "deckle/io/checkpoint.h"
#include "deckle/io/text_files.h"
#include "deckle/nn/decoder.h"

namespace deckle::cli {

/// Everything that determines the result of a training run. Stored in checkpoints, so that `--resume` needs nothing else.
struct TrainOptions {
  std::vector<std::string> text;  // files or folders
  io::TextOptions reading{.max_length = 4096};
  double validation = 0.05;  // share of the texts

  double minutes = 0;  // one of minutes and steps is given
  int64_t steps = 0;

  // A small model with many small steps: within minutes on a few cores it learns more than a large one.
  nn::DecoderOptions model{.d_model = 160, .depth = 4, .heads = 5};
  int64_t tokens = 2048;   // per batch
  int64_t accumulate = 1;  // batches per step
  double lr = 3e-3;
  double warmup = 0.03;  // share of the run
  double floor = 0.0;    // share of lr that is left at the end
  double beta2 = 0.98;
  double weight_decay = 0.1;
  double clip = 1;
  uint64_t seed = 1;
  double save_minutes = 1;       // between checkpoints
  DType dtype = DType::float32;  // of products, norms and attention; parameters and losses are float32
  bool graph = false;            // on a GPU each step is one graph, where it can be

  void save(io::Checkpoint& checkpoint) const;
  static TrainOptions load(const io::Checkpoint& checkpoint);
};

}  // namespace deckle::cli
