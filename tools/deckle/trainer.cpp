#include "tools/deckle/trainer.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>

#include "deckle/autograd/grad_mode.h"
#include "deckle/base/check.h"
#include "deckle/base/cpu_cap.h"
#include "deckle/base/parallel.h"
#include "deckle/core/generator.h"
#include "deckle/io/file.h"
#include "deckle/optim/clip.h"
#include "tools/deckle/interrupt.h"
#include "tools/deckle/numbers.h"

namespace deckle::cli {

namespace {

constexpr int64_t kValidations = 8;               // during a run
constexpr int64_t kQuickValidationTokens = 16'384;  // each; the last one takes all texts
constexpr uint64_t kValidationSeed = 0;           // which texts are held out, and their order, never change

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

io::TextDataset read(const TrainOptions& options) {
  return io::TextDataset(std::vector<std::filesystem::path>(options.text.begin(), options.text.end()), options.reading);
}

optim::AdamWOptions adamw_options(const TrainOptions& options) {
  return {.lr = options.lr, .beta2 = options.beta2, .weight_decay = options.weight_decay};
}

}  // namespace

Trainer::Trainer(const TrainOptions& options, std::filesystem::path folder)
    : options_(options),
      folder_(std::move(folder)),
      training_(read(options)),
      validation_(training_),
      model_(options.model),
      parameters_(model_.parameters()),
      optimizer_(parameters_, adamw_options(options)),
      pace_(options.steps > 0 ? Pace::by_steps(options.steps) : Pace::by_time(options.minutes * 60)),
      line_(stdout) {
  check(options.accumulate >= 1, "--accumulate is {} (expected 1 or more)", options.accumulate);
  check(options.lr > 0 && options.clip > 0, "--lr {} and --clip {} must be above 0", options.lr, options.clip);
  describe();
  std::tie(training_, validation_) = training_.split(options.validation, kValidationSeed);
  manual_seed(options.seed);
  io::make_folder(folder_);
  io::remove_checkpoints(folder_);
}

Trainer::Trainer(const std::filesystem::path& run_or_checkpoint)
    : Trainer(load_model(run_or_checkpoint), std::filesystem::is_directory(run_or_checkpoint) ? run_or_checkpoint : run_or_checkpoint.parent_path()) {}

Trainer::Trainer(LoadedModel loaded, std::filesystem::path folder)
    : options_(loaded.options),
      folder_(std::move(folder)),
      training_(read(options_)),
      validation_(training_),
      model_(std::move(loaded.model)),
      parameters_(model_.parameters()),
      optimizer_(parameters_, adamw_options(options_)),
      pace_(Pace::load(loaded.checkpoint)),
      line_(stdout) {
  describe();
  std::tie(training_, validation_) = training_.split(options_.validation, kValidationSeed);
  try {
    restore(loaded.checkpoint);
  } catch (Error& error) {
    error.add_prefix(loaded.path.string());
    throw;
  }
  io::remove_temporary_files(folder_);
  fmt::print("resumed from {}\n", loaded.path.string());
}

void Trainer::restore(const io::Checkpoint& checkpoint) {
  check(!pace_.done(), "the run is complete: nothing is left to resume");
  check(checkpoint.natural("data.fingerprint") == training_.fingerprint(), "the texts have changed since this checkpoint was written");
  optimizer_.load_state(take_prefixed(checkpoint.tensors, "optimizer."));
  curve_ = LossCurve::load(checkpoint);
  position_ = {checkpoint.integer("data.epoch"), checkpoint.integer("data.text")};
  totals_ = {checkpoint.integer("total.tokens"), checkpoint.integer("total.rows"), checkpoint.integer("total.padded_rows")};
  default_generator().set_state(checkpoint.natural("generator.seed"), checkpoint.natural("generator.offset"));
  validated_part_ = static_cast<int64_t>(pace_.progress() * kValidations);
  tokens_at_start_ = totals_.tokens;
  elapsed_at_start_ = pace_.elapsed();
}

io::Checkpoint Trainer::checkpoint() const {
  io::Checkpoint checkpoint;
  checkpoint.step = pace_.steps_done();
  options_.save(checkpoint);
  pace_.save(checkpoint);
  curve_.save(checkpoint);
  put_prefixed(checkpoint.tensors, "model.", model_.state());
  put_prefixed(checkpoint.tensors, "optimizer.", optimizer_.state());
  checkpoint.set("data.fingerprint", training_.fingerprint());
  checkpoint.set("data.epoch", position_.epoch);
  checkpoint.set("data.text", position_.text);
  checkpoint.set("total.tokens", totals_.tokens);
  checkpoint.set("total.rows", totals_.rows);
  checkpoint.set("total.padded_rows", totals_.padded_rows);
  checkpoint.set("generator.seed", default_generator().seed());
  checkpoint.set("generator.offset", default_generator().offset());
  return checkpoint;
}

std::filesystem::path Trainer::save() {
  const Stopwatch watch;
  const std::filesystem::path path = io::save_checkpoint(checkpoint(), folder_);
  pace_.pause(watch.seconds());
  seconds_since_save_ = 0;
  return path;
}

void Trainer::describe() const {
  const io::LengthSummary lengths = training_.lengths();
  const std::string name = options_.text.size() == 1 ? options_.text[0] : count_text(static_cast<int64_t>(options_.text.size()), "path");
  fmt::print("{}: {}, {}, lengths {}..{} (median {}); padding avoided: {:.0f} %\n", name, count_text(training_.size(), "text"),
             bytes_text(static_cast<double>(lengths.total)), with_commas(lengths.min), with_commas(lengths.max), with_commas(lengths.median),
             100 * training_.padding_share({.tokens = options_.tokens, .seed = options_.seed}));
  fmt::print("model: decoder, {} x {}, {} parameters; seed {}; {} ({})\n", count_text(options_.model.depth, "layer"), options_.model.width,
             short_count(static_cast<double>(model_.parameter_count())), options_.seed, count_text(num_threads(), "thread"), deckle::name(cpu_isa()));
  std::fflush(stdout);
}

void Trainer::run() {
  batches_.emplace(training_.batches({.tokens = options_.tokens, .seed = options_.seed, .epochs = 0, .start = position_}));
  train();
  line_.finish();
  finish(pace_.done());
}

void Trainer::train() {
  while (!pace_.done() && !interrupted()) {
    const Stopwatch watch;
    const double loss = step();
    pace_.step_done(watch.seconds());
    seconds_since_save_ += watch.seconds();
    curve_.training.push_back({pace_.steps_done(), bits(loss)});
    const double running = std::max(pace_.elapsed() - elapsed_at_start_, 1e-9);
    std::optional<double> validation;
    if (!curve_.validation.empty()) validation = curve_.validation.back().bits;
    line_.show({.share = pace_.progress(),
                .step = pace_.steps_done(),
                .loss = loss,
                .validation = validation,
                .tokens_per_second = static_cast<double>(totals_.tokens - tokens_at_start_) / running,
                .memory = memory_in_use(),
                .seconds_left = pace_.seconds_left()});
    validate_if_due();
    save_if_due();
  }
}

std::vector<NestedTensor> Trainer::next_batches() {
  std::vector<NestedTensor> batches;
  for (int64_t i = 0; i < options_.accumulate; ++i) {
    std::optional<io::TextBatch> batch = batches_->next();
    check(batch.has_value(), "there is no text to train on");
    position_ = batch->next;
    const RaggedShape& shape = *batch->tokens.ragged();
    totals_.rows += shape.rows();
    totals_.padded_rows += shape.components() * shape.max_size();
    batches.push_back(std::move(batch->tokens));
  }
  return batches;
}

double Trainer::step() {
  const std::vector<NestedTensor> batches = next_batches();
  int64_t tokens = 0;
  for (const NestedTensor& batch : batches) tokens += nn::predicted_symbols(batch);
  double total = 0;
  for (const NestedTensor& batch : batches) {
    // Every token weighs the same, however the batches share them.
    const double share = static_cast<double>(nn::predicted_symbols(batch)) / static_cast<double>(tokens);
    const Tensor loss = model_.loss(batch) * share;
    loss.backward();
    total += loss.item();
  }
  if (!std::isfinite(total)) {
    fail(ErrorKind::runtime, "the loss is {} at step {}: try a lower --lr than {}", total, pace_.steps_done() + 1, options_.lr);
  }
  optim::clip_gradient_norm(parameters_, options_.clip);
  optimizer_.set_lr(optim::WarmupCosine{options_.lr, options_.warmup, options_.floor}.at(pace_.progress()));
  optimizer_.step();
  optimizer_.zero_grad();
  totals_.tokens += tokens;
  return total;
}

double Trainer::validate(int64_t tokens) const {
  const NoGrad no_grad;
  double sum = 0;
  int64_t seen = 0;
  io::Batches batches = validation_.batches({.tokens = options_.tokens, .seed = kValidationSeed});
  while (tokens == 0 || seen < tokens) {
    const std::optional<io::TextBatch> batch = batches.next();
    if (!batch) break;
    const int64_t count = nn::predicted_symbols(batch->tokens);
    sum += model_.loss(batch->tokens).item() * static_cast<double>(count);
    seen += count;
  }
  return sum / static_cast<double>(seen);
}

void Trainer::validate_if_due() {
  // Due when progress has entered another of kValidations equal parts; the end has its own, complete one.
  const auto part = static_cast<int64_t>(pace_.progress() * kValidations);
  if (part == validated_part_ || pace_.done()) return;
  validated_part_ = part;
  const Stopwatch watch;
  curve_.validation.push_back({pace_.steps_done(), bits(validate(kQuickValidationTokens))});
  pace_.pause(watch.seconds());
}

void Trainer::save_if_due() {
  if (seconds_since_save_ >= 60 * options_.save_minutes && !pace_.done()) save();
}

void Trainer::write_curve() const {
  io::write_file(folder_ / "loss.svg", svg(curve_, fmt::format("{}: loss by step", folder_.filename().string())));
}

void Trainer::finish(bool complete) {
  if (!complete) {
    fmt::print("saving checkpoint ... ");
    std::fflush(stdout);
    const std::filesystem::path path = save();
    fmt::print("{} (resume: deckle train --resume {})\n", path.string(), folder_.string());
    return;
  }
  const double speed = static_cast<double>(totals_.tokens - tokens_at_start_) / std::max(pace_.elapsed() - elapsed_at_start_, 1e-9);
  const double elapsed = pace_.elapsed();
  const double loss = validate(0);
  curve_.validation.push_back({pace_.steps_done(), bits(loss)});
  const std::filesystem::path path = save();
  write_curve();
  fmt::print("\n{}\n", terminal_plot(curve_));
  fmt::print("{}, {} bytes predicted in {} ({} tok/s, peak memory {})\n", count_text(pace_.steps_done(), "step"), short_count(static_cast<double>(totals_.tokens)),
             duration_text(elapsed), with_commas(std::llround(speed)), bytes_text(static_cast<double>(peak_memory())));
  fmt::print("validation: {:.3f} bits/byte over {}\n", bits(loss), count_text(validation_.size(), "text"));
  fmt::print("padding avoided: {:.0f} % ({} rows computed instead of {})\n",
             100 * (1 - static_cast<double>(totals_.rows) / std::max<double>(1, static_cast<double>(totals_.padded_rows))),
             short_count(static_cast<double>(totals_.rows)), short_count(static_cast<double>(totals_.padded_rows)));
  fmt::print("curve: {}\ncheckpoint: {} (sample: deckle sample {})\n", (folder_ / "loss.svg").string(), path.string(), folder_.string());
}

}  // namespace deckle::cli
