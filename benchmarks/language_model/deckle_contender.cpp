// Deckle's side of the language-model benchmark: answers each line on standard input with one line of JSON.
//   prepare TEXT FOLDER BATCHES TOKENS SEED [HELD_OUT]   writes ragged batches and initial weights for all contenders, and as
//                                             many batches of other texts as are held out
//   load FOLDER LR DTYPE [graphs] [DEVICE]    a fresh model with those weights, and a fresh AdamW; float32, or bf16 with float32
//                                             parameters; on cpu (as if not said) or cuda, there its step perhaps as one graph,
//                                             which serves all batches
//   steps COUNT                               trains on the next COUNT batches; prints seconds, tokens and losses
//   held_out                                  the loss on the texts that are held out, as it is computed in training
//   peak COUNT                                bytes of the GPU in use at most during as many steps
#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/harness/serve.h"
#include "deckle/deckle.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace dk = deckle;

namespace {

constexpr dk::nn::DecoderOptions kModel{.vocab = 256, .d_model = 256, .depth = 4, .heads = 4};

std::string batch_name(size_t index, std::string_view part) { return fmt::format("{:03}.{}", index, part); }

class Contender {
 public:
  std::string prepare(std::istream& arguments) {
    std::string text, folder;
    size_t count = 0;
    int64_t tokens = 0;
    uint64_t seed = 0;
    size_t held_out = 0;
    arguments >> text >> folder >> count >> tokens >> seed;
    if (!(arguments >> held_out)) held_out = 0;
    dk::io::TensorMap saved, held;
    dk::io::Batches batches = dk::io::TextDataset(text).batches({.tokens = tokens, .seed = seed});
    int64_t rows = 0, padded = 0;
    for (size_t i = 0; i < count; ++i) {
      const auto batch = batches.next();
      if (!batch) break;
      save(batch->tokens, i, saved);
      rows += batch->tokens.ragged()->rows();
      padded += batch->tokens.components() * batch->tokens.ragged()->max_size();
    }
    for (size_t i = 0; i < held_out; ++i) {  // the same pass over the texts: none of them twice
      const auto batch = batches.next();
      if (!batch) break;
      save(batch->tokens, i, held);
    }
    dk::io::save(saved, folder + "/batches.safetensors");
    if (held_out > 0) dk::io::save(held, folder + "/held_out.safetensors");
    dk::io::save(dk::nn::DecoderLM(kModel).state(), folder + "/weights.safetensors");
    return fmt::format(R"({{"batches": {}, "rows": {}, "padded_rows": {}, "heads": {}, "depth": {}, "width": {}}})",
                       saved.size() / 2, rows, padded, kModel.heads, kModel.depth, kModel.d_model);
  }

  std::string load(std::istream& arguments) {
    std::string folder;
    double lr = 0;
    std::string dtype, device;
    arguments >> folder >> lr >> dtype >> device;
    const bool graphs = device == "graphs";
    if (graphs) arguments >> device;
    autocast_ = dtype == "bf16" ? std::optional(dk::DType::bfloat16) : std::nullopt;
    folder_ = folder;
    batches_ = read(folder + "/batches.safetensors");
    model_ = std::make_unique<dk::nn::DecoderLM>(kModel);
    model_->load_state(dk::io::load(folder + "/weights.safetensors"));
    if (device == "cuda") model_->to(dk::Device::cuda());
    optimizer_ = std::make_unique<dk::optim::AdamW>(model_->parameters(), dk::optim::AdamWOptions{.lr = lr});
    graph_.reset();
    room_.reset();
    if (graphs) make_room();
    next_ = 0;
    return "{}";
  }

  std::string steps(std::istream& arguments) {
    size_t count = 0;
    arguments >> count;
    return steps(count);
  }

  std::string held_out() {
    const dk::NoGrad scope;
    double sum = 0;
    int64_t tokens = 0;
    for (const dk::NestedTensor& batch : read(folder_ + "/held_out.safetensors")) {
      const dk::Autocast autocast(autocast_);
      const int64_t predicted = batch.ragged()->rows() - batch.components();
      sum += model_->loss(batch).item() * static_cast<double>(predicted);
      tokens += predicted;
    }
    return fmt::format(R"({{"loss": {}, "tokens": {}}})", sum / static_cast<double>(tokens), tokens);
  }

  std::string peak(std::istream& arguments) {
    size_t count = 0;
    arguments >> count;
    dk::empty_cache(dk::Device::cuda());
    dk::reset_peak_memory(dk::Device::cuda());
    steps(count);
    return std::to_string(dk::memory_stats(dk::Device::cuda()).peak);
  }

 private:
  static void save(const dk::NestedTensor& batch, size_t index, dk::io::TensorMap& to) {
    to[batch_name(index, "values")] = batch.values();
    to[batch_name(index, "offsets")] = batch.offsets();
  }

  static std::vector<dk::NestedTensor> read(const std::string& path) {
    const dk::io::SafetensorsFile file(path);
    std::vector<dk::NestedTensor> batches;
    for (size_t i = 0; file.contains(batch_name(i, "values")); ++i) {
      batches.push_back(dk::NestedTensor::from_offsets(file.read(batch_name(i, "values")),
                                                       file.read(batch_name(i, "offsets")).to_vector<int64_t>()));
    }
    return batches;
  }

  std::string steps(size_t count) {
    std::vector<double> losses;
    int64_t tokens = 0;
    const auto start = std::chrono::steady_clock::now();
    for (size_t step = 0; step < count; ++step) {
      const dk::NestedTensor& batch = batches_[next_++ % batches_.size()];
      room_ ? step_in_room(batch) : step_on(batch);
      losses.push_back(loss_.item());
      tokens += batch.ragged()->rows() - batch.components();
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    return fmt::format(R"({{"seconds": {}, "tokens": {}, "losses": [{}]}})", seconds.count(), tokens, fmt::join(losses, ", "));
  }

  void step_on(const dk::NestedTensor& batch) {
    optimizer_->zero_grad();
    {
      const dk::Autocast scope(autocast_);
      loss_ = model_->loss(batch);
    }
    loss_.backward();
    optimizer_->step();
  }

  void make_room() {
    dk::RaggedCapacity::Room room;
    for (const dk::NestedTensor& batch : batches_) {
      room.components = std::max(room.components, batch.components());
      room.rows = std::max(room.rows, batch.ragged()->rows());
      room.longest = std::max(room.longest, batch.ragged()->max_size());
    }
    const dk::Device gpu = dk::Device::cuda();
    room_.emplace(room, gpu);
    tokens_ = dk::zeros({room.rows}, dk::DType::int64, gpu);
    optimizer_->count_on_device(room_->overflow());
  }

  /// The first runs eagerly, and makes what the graph of the others takes for granted.
  void step_in_room(const dk::NestedTensor& batch) {
    std::vector<int64_t> lengths;
    for (int64_t i = 0; i < batch.components(); ++i) lengths.push_back(batch.ragged()->size(i));
    room_->set_lengths(lengths);
    dk::slice(tokens_, 0, 0, batch.ragged()->rows()).copy_(batch.values().to(dk::Device::cuda()));
    const auto step = [&] { step_on(dk::NestedTensor(tokens_, room_->ragged())); };
    if (next_ == 1) return step();
    if (!graph_) graph_.emplace(dk::Device::cuda(), step);
    graph_->replay();
  }

  std::string folder_;
  std::vector<dk::NestedTensor> batches_;
  std::unique_ptr<dk::nn::DecoderLM> model_;
  std::unique_ptr<dk::optim::AdamW> optimizer_;
  std::optional<dk::DType> autocast_;
  size_t next_ = 0;
  dk::Tensor loss_;
  std::optional<dk::RaggedCapacity> room_;
  dk::Tensor tokens_;  // of the batch in the room, and spare ones
  std::optional<dk::cuda::Graph> graph_;
};

}  // namespace

int main() try {
  Contender contender;
  dk::benchmarks::serve([&](const std::string& request, std::istream& arguments) {
    return request == "prepare"    ? contender.prepare(arguments)
           : request == "load"     ? contender.load(arguments)
           : request == "steps"    ? contender.steps(arguments)
           : request == "held_out" ? contender.held_out()
                                   : contender.peak(arguments);
  });
} catch (const std::exception& error) {  // a missing text, say
  std::cerr << error.what() << std::endl;
  return 1;
}
