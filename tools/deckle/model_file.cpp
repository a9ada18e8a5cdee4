#include "tools/deckle/model_file.h"

namespace deckle::cli {

LoadedModel load_model(const std::filesystem::path& path) {
  const std::filesystem::path file = io::latest_checkpoint(path);
  io::Checkpoint checkpoint = io::load_checkpoint(file);
  try {
    const TrainOptions options = TrainOptions::load(checkpoint);
    nn::DecoderLM model(options.model);
    model.load_state(take_prefixed(checkpoint.tensors, "model."));
    return {file, std::move(checkpoint), options, std::move(model)};
  } catch (Error& error) {
    error.set_op(file.string());
    throw;
  }
}

io::TensorMap take_prefixed(const io::TensorMap& from, const std::string& prefix) {
  io::TensorMap taken;
  for (const auto& [name, tensor] : from) {
    if (name.starts_with(prefix)) taken.emplace(name.substr(prefix.size()), tensor);
  }
  return taken;
}

void put_prefixed(io::TensorMap& to, const std::string& prefix, const io::TensorMap& tensors) {
  for (const auto& [name, tensor] : tensors) to[prefix + name] = tensor;
}

}  // namespace deckle::cli
