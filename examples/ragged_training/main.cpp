// Trains a decoder on texts of any length, a batch at a time, without a byte of padding; then lets it write.
#include <deckle/deckle.h>

#include <fmt/format.h>

namespace dk = deckle;

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: ragged_training TEXTS\n");
    return 2;
  }
  try {
    dk::io::TextDataset texts(argv[1]);
    dk::nn::DecoderLM model({.vocab = 256, .d_model = 128, .depth = 2, .heads = 4});
    dk::optim::AdamW optimizer(model.parameters(), {.lr = 3e-3});

    int step = 0;
    for (const dk::NestedTensor& batch : texts.batches({.tokens = 4096, .seed = 1, .epochs = 2})) {
      dk::Tensor loss = model.loss(batch);
      loss.backward();
      optimizer.step();
      optimizer.zero_grad();
      if (step++ % 10 == 0) fmt::print("step {}: loss {:.3f} on {}\n", step, loss.item(), dk::to_string(batch));
    }
    dk::io::save(model.state(), "model.safetensors");

    const int64_t begin[] = {dk::io::kTextBoundary};
    dk::nn::SequenceSampler sampler(model, {.temperature = 0.8});
    sampler.add(begin, /*seed=*/1);
    for (int64_t byte; (byte = sampler.next()[0]) != dk::io::kTextBoundary;) fmt::print("{}", static_cast<char>(byte));
    fmt::print("\n");
  } catch (const dk::Error& error) {
    fmt::print(stderr, "ragged_training: {}\n", error.what());
    return 1;
  }
}
