#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "deckle/nn/generate.h"

namespace deckle::cli {

struct SampleRequest {
  std::filesystem::path run;  // or a checkpoint
  std::string prompt;
  int64_t length = 500;       // bytes at most, the prompt not counted
  int64_t texts = 1;          // 0: as many as fit the length, with `%` between them
  uint64_t seed = 1;
  nn::SampleOptions drawing{.temperature = 0.8};
  bool words = false;         // also tell which share of the words occur in the texts that the run trained on
};

/// Prints text from a trained model as it is made.
void print_sample(const SampleRequest& request);

/// The share of the words (runs of letters, case ignored) of `sample` that occur in `texts`; 1 if it has none.
double known_words(const std::string& sample, const std::string& texts);

}  // namespace deckle::cli
