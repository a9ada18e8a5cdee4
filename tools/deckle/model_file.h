#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "deckle/io/checkpoint.h"
#include "deckle/nn/decoder.h"
#include "tools/deckle/train_options.h"

namespace deckle::cli {

/// A run's checkpoint and the model in it. `path` is a checkpoint, or a run's folder for its newest.
struct LoadedModel {
  std::filesystem::path path;
  io::Checkpoint checkpoint;
  TrainOptions options;
  nn::DecoderLM model;
};

LoadedModel load_model(const std::filesystem::path& path);

/// The tensors of `from` whose names begin with `prefix`, without it; and `tensors` put into `to` with it.
io::TensorMap take_prefixed(const io::TensorMap& from, const std::string& prefix);
void put_prefixed(io::TensorMap& to, const std::string& prefix, const io::TensorMap& tensors);

}  // namespace deckle::cli
