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
  int64_t together = 16;             // made at the same time at most; decides the speed alone
  uint64_t seed = 1;                 // of the first text, seed + 1 of the second, and so on
  nn::SampleOptions drawing{.temperature = 0.8};
  bool words = false;  // also tell which share of the words occur in the texts that the run trained on
  bool speed = false;  // also tell the tokens per second
};

/// Prints texts from a trained model as they are made, `%` between them, the prompts in turn.
void print_sample(const SampleRequest& request);

/// The share of the words (runs of letters, case ignored) of `sample` that occur in `texts`; 1 if it has none.
double known_words(const std::string& sample, const std::string& texts);

}  // namespace deckle::cli
