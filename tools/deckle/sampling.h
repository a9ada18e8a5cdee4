#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "deckle/nn/generate.h"

namespace deckle::cli {

struct SampleRequest {
  std::filesystem::path run;         // or a checkpoint
  std::vector<std::string> prompts;  // none: one empty prompt
  int64_t length = 500;              // bytes of a text at most, the prompt not counted
  int64_t texts = 1;                 // of each prompt; 0: as many as fit the length together
  int64_t together = 16;             // batch size; affects only the speed
  uint64_t seed = 1;                 // of the first text, seed + 1 of the second, and so on
  nn::SampleOptions drawing{.temperature = 0.8};
  Device device;
  DType dtype = DType::float32;  // of the model
  bool words = false;            // also print the share of words that occur in the training texts
  bool speed = false;            // also print tokens per second
};

/// Prints texts from a trained model while they are generated, separated by `%`, for each prompt in turn.
void print_sample(const SampleRequest& request);

/// The share of the words (runs of letters, case ignored) of `sample` that occur in `texts`; 1 if it has none.
double known_words(const std::string& sample, const std::string& texts);

}  // namespace deckle::cli
