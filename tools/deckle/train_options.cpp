#include "tools/deckle/train_options.h"

#include <fmt/format.h>

#include "deckle/base/check.h"

namespace deckle::cli {

namespace {

/// Calls `action(key, field)` on every numeric option: one list shared by saving and loading.
template <typename Options, typename Action>
void each_number(Options& options, Action&& action) {
  action("options.format", options.reading.format);
  action("options.max_length", options.reading.max_length);
  action("options.validation", options.validation);
  action("options.minutes", options.minutes);
  action("options.steps", options.steps);
  action("options.vocab", options.model.vocab);
  action("options.width", options.model.d_model);  // the key of checkpoints from before it was called d_model
  action("options.depth", options.model.depth);
  action("options.heads", options.model.heads);
  action("options.kv_heads", options.model.kv_heads);
  action("options.hidden", options.model.hidden);
  action("options.rotary_base", options.model.rotary_base);
  action("options.model_seed", options.model.seed);
  action("options.tokens", options.tokens);
  action("options.accumulate", options.accumulate);
  action("options.lr", options.lr);
  action("options.warmup", options.warmup);
  action("options.floor", options.floor);
  action("options.beta2", options.beta2);
  action("options.weight_decay", options.weight_decay);
  action("options.clip", options.clip);
  action("options.seed", options.seed);
  action("options.save_minutes", options.save_minutes);
}

void store(io::Checkpoint& checkpoint, const char* key, io::TextFormat value) {
  checkpoint.set(key, static_cast<int64_t>(value));
}
template <typename T>
void store(io::Checkpoint& checkpoint, const char* key, const T& value) {
  checkpoint.set(key, value);
}

void fetch(const io::Checkpoint& checkpoint, const char* key, io::TextFormat& value) {
  value = static_cast<io::TextFormat>(checkpoint.integer(key));
}
void fetch(const io::Checkpoint& checkpoint, const char* key, int64_t& value) { value = checkpoint.integer(key); }
void fetch(const io::Checkpoint& checkpoint, const char* key, uint64_t& value) { value = checkpoint.natural(key); }
void fetch(const io::Checkpoint& checkpoint, const char* key, double& value) { value = checkpoint.real(key); }

}  // namespace

void TrainOptions::save(io::Checkpoint& checkpoint) const {
  each_number(*this, [&](const char* key, const auto& value) { store(checkpoint, key, value); });
  checkpoint.set("options.dtype", std::string(name(dtype)));
  checkpoint.set("options.graph", static_cast<int64_t>(graph));
  checkpoint.set("options.field", reading.field);
  checkpoint.set("options.texts", static_cast<int64_t>(text.size()));
  // Absolute, so that a run can be resumed from any folder.
  for (size_t i = 0; i < text.size(); ++i)
    checkpoint.set(fmt::format("options.text.{}", i), std::filesystem::absolute(text[i]).lexically_normal().string());
}

TrainOptions TrainOptions::load(const io::Checkpoint& checkpoint) {
  TrainOptions options;
  each_number(options, [&](const char* key, auto& value) { fetch(checkpoint, key, value); });
  // Checkpoints of former versions have neither of them.
  if (const auto dtype = checkpoint.metadata.find("options.dtype"); dtype != checkpoint.metadata.end()) {
    check(dtype->second == "float32" || dtype->second == "bfloat16", "the checkpoint's \"options.dtype\" is \"{}\"",
          dtype->second);
    if (dtype->second == "bfloat16") options.dtype = DType::bfloat16;
  }
  options.graph = checkpoint.metadata.contains("options.graph") && checkpoint.integer("options.graph") != 0;
  options.reading.field = checkpoint.text("options.field");
  for (int64_t i = 0; i < checkpoint.integer("options.texts"); ++i)
    options.text.push_back(checkpoint.text(fmt::format("options.text.{}", i)));
  return options;
}

}  // namespace deckle::cli
