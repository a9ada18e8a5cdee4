#include "tools/deckle/trainer.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <numeric>
#include <span>

#include "deckle/autograd/autocast.h"
#include "deckle/autograd/grad_mode.h"
#include "deckle/base/check.h"
#include "deckle/core/generator.h"
#include "deckle/io/file.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/optim/clip.h"
#include "tools/deckle/interrupt.h"
#include "tools/deckle/memory_needed.h"
#include "tools/deckle/numbers.h"
#include "tools/deckle/output.h"
#include "tools/deckle/placement.h"

namespace deckle::cli {

namespace {

constexpr int64_t kValidations = 8;                 // during a run
constexpr int64_t kQuickValidationTokens = 16'384;  // each; the last one takes all texts
constexpr int64_t kMostGraphedBatches = 16;         // a graph holds the work of all
constexpr uint64_t kValidationSeed = 0;             // fixed: the held-out texts and their order never change

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

io::TextDataset read(const TrainOptions& options, Device device) {
  require_memory(options, 0, device);
  io::TextDataset texts(std::vector<std::filesystem::path>(options.text.begin(), options.text.end()), options.reading);
  require_memory(options, texts.lengths().total, device);
  return texts;
}

optim::AdamWOptions adamw_options(const TrainOptions& options) {
  return {.lr = options.lr, .beta2 = options.beta2, .weight_decay = options.weight_decay};
}

nn::DecoderLM place_on(nn::DecoderLM model, Device device) {
  model.to(device);
  return model;
}

}  // namespace

Trainer::Trainer(const TrainOptions& options, const FolderRequest& folder, Device device)
    : options_(options),
      device_(device),
      training_(read(options, device)),
      validation_(training_),
      model_(place_on(nn::DecoderLM(options.model), device)),
      parameters_(model_.parameters()),
      optimizer_(parameters_, adamw_options(options)),
      pace_(options.steps > 0 ? Pace::by_steps(options.steps) : Pace::by_time(options.minutes * 60)),
      line_(stdout) {
  describe();
  std::tie(training_, validation_) = training_.split(options.validation, kValidationSeed);
  manual_seed(options.seed);
  // Last, so that invalid options are reported before anything is written.
  folder_ = RunFolder::create(folder, options.text[0]);
}

Trainer::Found Trainer::find_run(const std::filesystem::path& run_or_checkpoint) {
  const std::filesystem::path parent = io::latest_checkpoint(run_or_checkpoint).parent_path();
  RunFolder folder = RunFolder::open(parent.empty() ? "." : parent);
  // Only now: another run may just have ended here.
  LoadedModel loaded = load_model(run_or_checkpoint);
  const std::vector<std::filesystem::path> all = io::list_checkpoints(folder.path());
  if (!all.empty() && !std::filesystem::equivalent(all.front(), loaded.path)) {
    // Checkpoints of this run would look older than that one.
    fail(ErrorKind::io, "{}: {} has another checkpoint, {}: copy this one to a folder of its own to go on from it",
         loaded.path.string(), folder.path().string(), all.front().filename().string());
  }
  return {std::move(folder), std::move(loaded)};
}

Trainer::Trainer(const std::filesystem::path& run_or_checkpoint, Device device) : Trainer(find_run(run_or_checkpoint), device) {}

Trainer::Trainer(Found found, Device device)
    : options_(found.loaded.options),
      device_(device),
      folder_(std::move(found.folder)),
      training_(read(options_, device)),
      validation_(training_),
      model_(place_on(std::move(found.loaded.model), device)),
      parameters_(model_.parameters()),
      optimizer_(parameters_, adamw_options(options_)),
      pace_(Pace::load(found.loaded.checkpoint)),
      line_(stdout) {
  describe();
  std::tie(training_, validation_) = training_.split(options_.validation, kValidationSeed);
  try {
    restore(found.loaded.checkpoint);
  } catch (Error& error) {
    error.set_op(found.loaded.path.string());
    throw;
  }
  say("resumed from {}\n", found.loaded.path.string());
}

void Trainer::restore(const io::Checkpoint& checkpoint) {
  check(!pace_.done(), "the run is complete: nothing is left to resume");
  check(checkpoint.natural("data.fingerprint") == training_.fingerprint(),
        "the texts have changed since this checkpoint was written");
  optimizer_.load_state(take_prefixed(checkpoint.tensors, "optimizer."));
  curve_ = LossCurve::load(checkpoint);
  position_ = {checkpoint.integer("data.epoch"), checkpoint.integer("data.text")};
  if (checkpoint.metadata.contains("graph.texts")) texts_ = checkpoint.integer("graph.texts");
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
  checkpoint.set("graph.texts", graphed_ ? graphed_->texts() : texts_);
  checkpoint.set("generator.seed", default_generator().seed());
  checkpoint.set("generator.offset", default_generator().offset());
  return checkpoint;
}

std::filesystem::path Trainer::save() {
  const Stopwatch watch;
  const std::filesystem::path path = io::save_checkpoint(checkpoint(), folder_->path());
  pace_.pause(watch.seconds());
  seconds_since_save_ = 0;
  return path;
}

void Trainer::describe() const {
  const io::LengthSummary lengths = training_.lengths();
  const std::string name =
      options_.text.size() == 1 ? options_.text[0] : count_text(static_cast<int64_t>(options_.text.size()), "path");
  say("{}: {}, {}, lengths {}..{} (median {}); padding avoided: {:.0f} %\n", name, count_text(training_.size(), "text"),
      bytes_text(static_cast<double>(lengths.total)), with_commas(lengths.min), with_commas(lengths.max),
      with_commas(lengths.median), 100 * training_.padding_share({.tokens = options_.tokens, .seed = options_.seed}));
  say("model: decoder, {} x {}, {} parameters; seed {}; {}{}\n", count_text(options_.model.depth, "layer"),
      options_.model.d_model, short_count(static_cast<double>(model_.parameter_count())), options_.seed,
      placement_text(options_.dtype, device_), options_.graph && device_.is_cuda() ? ", one graph a step" : "");
}

void Trainer::run() {
  check_output();  // so far there is nothing to save
  batches_.emplace(training_.batches({.tokens = options_.tokens, .seed = options_.seed, .epochs = 0, .start = position_}));
  prepare_graph();
  if (io::list_checkpoints(folder_->path()).empty()) save();  // a run that is killed in its first steps goes on, too
  train();
  line_.finish();
  finish(pace_.done());
}

void Trainer::train() {
  while (!pace_.done() && !interrupted() && !output_lost()) {
    const Stopwatch watch;
    const std::optional<double> loss = step();
    if (!loss) break;
    pace_.step_done(watch.seconds());
    seconds_since_save_ += watch.seconds();
    curve_.training.push_back({pace_.steps_done(), bits(*loss)});
    const double running = std::max(pace_.elapsed() - elapsed_at_start_, 1e-9);
    std::optional<double> validation;
    if (!curve_.validation.empty()) validation = curve_.validation.back().bits;
    line_.show({.share = pace_.progress(),
                .step = pace_.steps_done(),
                .loss = *loss,
                .validation = validation,
                .tokens_per_second = static_cast<double>(totals_.tokens - tokens_at_start_) / running,
                .memory = memory_in_use(device_),
                .seconds_left = pace_.seconds_left()});
    validate_if_due();
    save_if_due();
  }
}

std::vector<NestedTensor> Trainer::next_batches() {
  std::vector<NestedTensor> batches;
  for (int64_t i = 0; i < options_.accumulate && !interrupted(); ++i) {
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

void Trainer::prepare_graph() {
  if (!options_.graph || device_.is_cpu()) return;
  if (options_.accumulate > kMostGraphedBatches) {
    say("no graph: {} batches a step (a graph serves up to {})\n", options_.accumulate, kMostGraphedBatches);
    return;
  }
  graphed_.emplace(model_, optimizer_,
                   GraphedStep::Options{.batches = options_.accumulate,
                                        .tokens = options_.tokens,
                                        .longest = training_.lengths().max + 2,  // boundaries
                                        .texts = texts_,
                                        .clip = options_.clip,
                                        .autocast = autocast_for(options_.dtype)});
}

std::optional<double> Trainer::step() {
  const auto leave = [this, position = position_, totals = totals_]() -> std::optional<double> {
    optimizer_.zero_grad();
    position_ = position;
    totals_ = totals;
    return {};
  };
  const std::vector<NestedTensor> batches = next_batches();
  if (interrupted()) return leave();
  const double lr = optim::WarmupCosine{options_.lr, options_.warmup, options_.floor}.at(pace_.progress());
  const std::optional<StepResult> result = graphed_ ? replay(batches, lr) : call(batches, lr);
  if (!result) return leave();
  if (!result->finite()) {
    fail(ErrorKind::runtime, "at step {} the loss is {} and the gradient's norm {}: try a lower --lr than {}",
         pace_.steps_done() + 1, result->loss, result->norm, options_.lr);
  }
  for (const NestedTensor& batch : batches) totals_.tokens += nn::predicted_tokens(batch);
  return result->loss;
}

std::optional<StepResult> Trainer::replay(std::span<const NestedTensor> batches, double lr) {
  const int64_t before = graphed_->steps();
  try {
    return graphed_->run(batches, lr);
  } catch (const Error& error) {
    if (graphed_->steps() != before) throw;
    line_.finish();
    say("no graph from here on: {}\n", error.what());
  }
  graphed_.reset();
  return call(batches, lr);
}

std::optional<StepResult> Trainer::call(std::span<const NestedTensor> batches, double lr) {
  int64_t tokens = 0;
  for (const NestedTensor& batch : batches) tokens += nn::predicted_tokens(batch);
  std::vector<Tensor> read;  // the losses of the batches, then the norms of the gradients
  optimizer_.zero_grad();
  for (const NestedTensor& batch : batches) {
    if (interrupted()) return {};
    // Every token has the same weight, however tokens are distributed over batches.
    const double share = static_cast<double>(nn::predicted_tokens(batch)) / static_cast<double>(tokens);
    const Tensor loss = loss_of(batch) * share;
    loss.backward();
    read.push_back(to(reshape(loss.detach(), {1}), DType::float64));
  }
  read.push_back(optim::gradient_norms(parameters_));
  // The one time in a step that the host waits for the device.
  const std::vector<double> values = cat(read).to_vector();
  const std::span<const double> losses = std::span(values).first(batches.size());
  StepResult result;
  result.loss = std::accumulate(losses.begin(), losses.end(), 0.0);
  result.norm = optim::clip_gradient_norm(parameters_, options_.clip, std::span(values).subspan(batches.size()));
  // A step would propagate what is not finite to all parameters and into a checkpoint.
  if (!result.finite()) return result;
  optimizer_.set_lr(lr);
  optimizer_.step();
  optimizer_.zero_grad();
  return result;
}

Tensor Trainer::loss_of(const NestedTensor& batch) const {
  const Autocast scope(autocast_for(options_.dtype));
  return model_.loss(batch);
}

double Trainer::validate(int64_t tokens) const {
  const NoGrad no_grad;
  double sum = 0;
  int64_t seen = 0;
  io::Batches batches = validation_.batches({.tokens = options_.tokens, .seed = kValidationSeed});
  while (tokens == 0 || seen < tokens) {
    const std::optional<io::TextBatch> batch = batches.next();
    if (!batch) break;
    const int64_t count = nn::predicted_tokens(batch->tokens);
    sum += loss_of(batch->tokens).item() * static_cast<double>(count);
    seen += count;
  }
  return sum / static_cast<double>(seen);
}

void Trainer::validate_if_due() {
  // Due when progress enters the next of kValidations equal parts; the end has its own, complete one.
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
  const std::filesystem::path& folder = folder_->path();
  io::write_file(folder / "loss.svg", svg(curve_, fmt::format("{}: loss in bits per byte by step", folder.filename().string())));
}

void Trainer::finish(bool complete) {
  const std::string folder = folder_->path().string();
  if (!complete) {
    say("saving checkpoint ... ");
    const std::filesystem::path path = save();
    say("{} (resume: deckle train --resume {})\n", path.string(), folder);
    return;
  }
  const double speed =
      static_cast<double>(totals_.tokens - tokens_at_start_) / std::max(pace_.elapsed() - elapsed_at_start_, 1e-9);
  const double elapsed = pace_.elapsed();
  const double loss = validate(0);
  curve_.validation.push_back({pace_.steps_done(), bits(loss)});
  write_curve();  // before the last checkpoint: a run that has it is complete and never comes here again
  const std::filesystem::path path = save();
  say("\n{}\n", terminal_plot(curve_));
  say("{}, {} bytes predicted in {} ({} tok/s, peak memory {})\n", count_text(pace_.steps_done(), "step"),
      short_count(static_cast<double>(totals_.tokens)), duration_text(elapsed), with_commas(std::llround(speed)),
      bytes_text(static_cast<double>(peak_memory(device_))));
  say("validation: {:.3f} bits/byte over {}\n", bits(loss), count_text(validation_.size(), "text"));
  say("padding avoided: {:.0f} % ({} rows computed instead of {})\n",
      100 * (1 - static_cast<double>(totals_.rows) / std::max<double>(1, static_cast<double>(totals_.padded_rows))),
      short_count(static_cast<double>(totals_.rows)), short_count(static_cast<double>(totals_.padded_rows)));
  say("curve: {}/loss.svg\ncheckpoint: {} (sample: deckle sample {})\n", folder, path.string(), folder);
}

}  // namespace deckle::cli
