// The command line: arguments in, one-line errors and exit codes out.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <new>

#include "deckle/base/error.h"
#include "deckle/base/parallel.h"
#include "tools/deckle/interrupt.h"
#include "tools/deckle/ops_table.h"
#include "tools/deckle/sampling.h"
#include "tools/deckle/trainer.h"

namespace {

using namespace deckle;

constexpr int kFailed = 1;
constexpr int kUsage = 2;

struct TrainCommand {
  cli::TrainOptions options;
  std::string run;
  std::string resume;
  bool overwrite = false;
};

/// The package's own checks of numbers print their limits with 300 digits.
CLI::Validator at_least(double limit, bool exclusive) {
  return CLI::Validator(
      [=](std::string& text) {
        double value = 0;
        const bool fits = CLI::detail::lexical_cast(text, value) && (exclusive ? value > limit : value >= limit);
        return fits ? std::string() : fmt::format("{} (expected {} {})", text, exclusive ? "a number above" : "a number from", limit);
      },
      "NUMBER");
}
const CLI::Validator kAboveZero = at_least(0, true);
const CLI::Validator kFromZero = at_least(0, false);

void add_threads(CLI::App* command) {
  command->add_option_function<int>("--threads", [](int count) { set_num_threads(count); }, "Threads (default: all cores)")->check(kAboveZero);
}

void add_train(CLI::App& app, TrainCommand& command) {
  cli::TrainOptions& options = command.options;
  CLI::App* train = app.add_subcommand("train", "Train a decoder on the bytes of texts");
  train->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  CLI::Option* text = train->add_option("--text", options.text, "Files or folders of texts: one per line, % separated, or JSONL")
                          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  CLI::Option* minutes = train->add_option("--minutes", options.minutes, "Train for about this long")->check(kAboveZero);
  CLI::Option* steps = train->add_option("--steps", options.steps, "Train for exactly this many steps")->check(kAboveZero)->excludes(minutes);
  CLI::Option* resume = train->add_option("--resume", command.resume, "Go on with the run in this folder, or from this checkpoint")
                            ->excludes(text)->excludes(minutes)->excludes(steps);
  train->add_option("--run", command.run, "Folder for checkpoints and the curve (default: runs/NAME, or a new name beside it)")->excludes(resume);
  train->add_flag("--overwrite", command.overwrite, "Start anew in a folder that holds a run: its checkpoints go")->excludes(resume);
  const std::map<std::string, io::TextFormat> formats{
      {"auto", io::TextFormat::automatic}, {"lines", io::TextFormat::lines}, {"percent", io::TextFormat::percent}, {"jsonl", io::TextFormat::jsonl}};
  train->add_option("--format", options.reading.format, "auto, lines, percent or jsonl")->transform(CLI::CheckedTransformer(formats, CLI::ignore_case));
  train->add_option("--field", options.reading.field, "JSONL field with the text");
  train->add_option("--max-length", options.reading.max_length, "Cut longer texts (bytes; 0: never)")->check(kFromZero);
  train->add_option("--validation", options.validation, "Share of the texts that is held out");
  train->add_option("--width", options.model.width, "Width of the model");
  train->add_option("--depth", options.model.depth, "Number of layers");
  train->add_option("--heads", options.model.heads, "Attention heads");
  train->add_option("--kv-heads", options.model.kv_heads, "Key and value heads (0: as many as heads)");
  train->add_option("--hidden", options.model.hidden, "Width of the feed-forward blocks (0: 8/3 of the width)");
  train->add_option("--tokens", options.tokens, "Bytes to predict per batch")->check(kAboveZero);
  train->add_option("--accumulate", options.accumulate, "Batches per step")->check(kAboveZero);
  train->add_option("--lr", options.lr, "Peak learning rate");
  train->add_option("--warmup", options.warmup, "Share of the run in which the learning rate rises");
  train->add_option("--floor", options.floor, "Share of the learning rate that is left at the end");
  train->add_option("--beta2", options.beta2, "AdamW's second momentum");
  train->add_option("--weight-decay", options.weight_decay, "AdamW's weight decay");
  train->add_option("--clip", options.clip, "Largest norm of the gradient");
  train->add_option("--seed", options.seed, "Seed of the starting values and of the order of texts");
  train->add_option("--save-minutes", options.save_minutes, "Time between checkpoints");
  add_threads(train);
  train->callback([=, &options] {
    if (*resume) return;
    if (!*text) throw CLI::RequiredError("--text (or --resume)");
    if (!*minutes && !*steps) throw CLI::RequiredError("--minutes (or --steps)");
    options.model.seed = options.seed;
  });
  train->footer("Ctrl-C saves and ends; a second one ends at once. Results depend on the options alone, never on the threads.");
}

void add_sample(CLI::App& app, cli::SampleRequest& request) {
  CLI::App* sample = app.add_subcommand("sample", "Continue a prompt with a trained model");
  sample->add_option("run,--run", request.run, "A run's folder, or a checkpoint")->required();
  sample->add_option("--prompt", request.prompt, "The beginning");
  sample->add_option("--length", request.length, "Bytes at most")->check(kFromZero);
  sample->add_option("--texts", request.texts, "Number of texts (0: as many as fit the length)")->check(kFromZero);
  sample->add_option("--temperature", request.drawing.temperature, "Below 1: likelier bytes; 0: always the likeliest")->check(kFromZero);
  sample->add_option("--top-k", request.drawing.top_k, "Draw from the k likeliest bytes (0: all)")->check(kFromZero);
  sample->add_option("--seed", request.seed, "Seed of the drawing");
  sample->add_flag("--words", request.words, "Tell which share of the words occur in the training texts");
  add_threads(sample);
}

std::string explained_op;

CLI::App* add_ops(CLI::App& app) {
  CLI::App* ops = app.add_subcommand("ops", "List the ops, or explain one");
  ops->add_subcommand("explain", "What the entry of an op says")->add_option("name", explained_op, "Name of the op")->required();
  return ops;
}

/// A new run's folder: the one asked for, or runs/NAME where no checkpoint is overwritten.
std::filesystem::path folder_for(const TrainCommand& command) {
  const auto taken = [](const std::filesystem::path& folder) { return std::filesystem::exists(folder) && !std::filesystem::is_empty(folder); };
  if (!command.run.empty()) {
    if (taken(command.run) && !command.overwrite) throw Error(ErrorKind::io, fmt::format("{}: there is a run already (go on with it: --resume {})", command.run, command.run));
    return command.run;
  }
  std::filesystem::path text = std::filesystem::absolute(command.options.text[0]).lexically_normal();
  if (!text.has_filename()) text = text.parent_path();
  const std::filesystem::path base = std::filesystem::path("runs") / text.stem();
  std::filesystem::path folder = base;
  for (int number = 2; taken(folder); ++number) folder = base.string() + "-" + std::to_string(number);
  return folder;
}

void train(TrainCommand& command) {
  cli::install_interrupts();
  if (!command.resume.empty()) return cli::Trainer(command.resume).run();
  cli::Trainer(command.options, folder_for(command)).run();
}

int run(int argc, char** argv) {
  CLI::App app("Training on ragged data.", "deckle");
  app.require_subcommand(1);
  TrainCommand train_command;
  cli::SampleRequest sample_request;
  add_train(app, train_command);
  add_sample(app, sample_request);
  CLI::App* ops = add_ops(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "deckle: {} (see deckle --help)\n", error.what());
    return kUsage;
  }
  if (app.got_subcommand("train")) train(train_command);
  if (app.got_subcommand("sample")) cli::print_sample(sample_request);
  if (app.got_subcommand("ops")) fmt::print("{}", ops->got_subcommand("explain") ? cli::explain_op(explained_op) : cli::list_ops());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const deckle::Error& error) {
    fmt::print(stderr, "deckle: {}\n", error.what());
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "deckle: out of memory\n");
  } catch (const std::exception& error) {
    fmt::print(stderr, "deckle: {}\n", error.what());
  }
  return kFailed;
}
