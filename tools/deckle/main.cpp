// The command line: arguments in, one-line errors and exit codes out.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <iostream>
#include <new>
#include <ranges>
#include <span>

#include "deckle/base/cpu_cap.h"
#include "deckle/base/parallel.h"
#include "tools/deckle/completion.h"
#include "tools/deckle/interrupt.h"
#include "tools/deckle/machine.h"
#include "tools/deckle/ops_table.h"
#include "tools/deckle/output.h"
#include "tools/deckle/placement.h"
#include "tools/deckle/sampling.h"
#include "tools/deckle/trainer.h"

namespace {

using namespace deckle;

constexpr int kFailed = 1;
constexpr int kUsage = 2;

/// Where and in what a command computes, as it is written.
struct Placement {
  std::string device = "cpu";
  std::string dtype = "float32";
};

struct SampleCommand {
  cli::SampleRequest request;
  Placement placement;
};

struct TrainCommand {
  cli::TrainOptions options;
  Placement placement;
  cli::FolderRequest folder;
  std::string resume;
};

/// A finite number that `fits`. The package's own checks print their limits with 300 digits.
CLI::Validator number(const char* expected, bool (*fits)(double)) {
  return CLI::Validator(
      [=](std::string& text) {
        double value = 0;
        const bool fine = CLI::detail::lexical_cast(text, value) && std::isfinite(value) && fits(value);
        return fine ? std::string() : fmt::format("{} (expected {})", text, expected);
      },
      "");  // no name: help shows the type alone
}

/// A whole number from `least` to `most`.
CLI::Validator whole(int64_t least, int64_t most) {
  return CLI::Validator(
      [=](std::string& text) {
        int64_t value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        const bool fine = error == std::errc() && end == text.data() + text.size() && value >= least && value <= most;
        return fine ? std::string() : fmt::format("{} (expected a whole number from {} to {})", text, least, most);
      },
      "");
}

/// Replaces the name of a format of texts by its number.
std::string parse_format(std::string& text) {
  const std::map<std::string, io::TextFormat> formats{{"auto", io::TextFormat::automatic},
                                                      {"lines", io::TextFormat::lines},
                                                      {"percent", io::TextFormat::percent},
                                                      {"jsonl", io::TextFormat::jsonl}};
  const auto found = formats.find(text);
  if (found == formats.end()) return text + " (expected auto, lines, percent or jsonl)";
  text = std::to_string(static_cast<int>(found->second));
  return "";
}

const CLI::Validator kPath([](std::string& text) { return text.empty() ? "the path is empty" : ""; }, "");
const CLI::Validator kAboveZero = number("a number above 0", [](double x) { return x > 0; });
const CLI::Validator kMinutes = number("a number above 0, up to a year's 525600", [](double x) { return x > 0 && x <= 525'600; });
const CLI::Validator kFromZero = number("a number from 0", [](double x) { return x >= 0; });
const CLI::Validator kShare = number("a share, 0 to 1", [](double x) { return x >= 0 && x <= 1; });
const CLI::Validator kPart = number("a share above 0 and below 1", [](double x) { return x > 0 && x < 1; });
const CLI::Validator kMomentum = number("a number from 0 to below 1", [](double x) { return x >= 0 && x < 1; });
const CLI::Validator kThreads = whole(1, 1024);
constexpr int64_t kMany = 1'000'000'000'000;  // of steps, bytes, texts: beyond every run

void add_threads(CLI::App* command) {
  command
      ->add_option_function<int>(
          "--threads", [](int count) { set_num_threads(count); }, "Threads (default: all cores)")
      ->check(kThreads);
}

/// A validator that accepts what `why_not` has no objection to.
CLI::Validator validator_of(std::string (*why_not)(const std::string&)) {
  return CLI::Validator([=](std::string& text) { return why_not(text); }, "");
}

void add_placement(CLI::App* command, Placement& placement, const char* dtype) {
  command->add_option("--device", placement.device, "cpu, cuda, cuda:1 or the like, or auto: a GPU if there is one")
      ->check(validator_of(cli::why_no_device));
  command->add_option("--dtype", placement.dtype, dtype)->check(validator_of(cli::why_no_dtype));
}

void add_train(CLI::App& app, TrainCommand& command) {
  cli::TrainOptions& options = command.options;
  CLI::App* train = app.add_subcommand("train", "Train a decoder on the bytes of texts");
  CLI::Option* text = train->add_option("--text", options.text, "Files or folders of texts: one per line, % separated, or JSONL")
                          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
                          ->check(kPath);
  CLI::Option* minutes = train->add_option("--minutes", options.minutes, "Train for about this long")->check(kMinutes);
  CLI::Option* steps =
      train->add_option("--steps", options.steps, "Train for exactly this many steps")->check(whole(1, kMany))->excludes(minutes);
  CLI::Option* resume =
      train->add_option("--resume", command.resume, "Go on with the run in this folder, or from this checkpoint")
          ->check(kPath)
          ->excludes(text)
          ->excludes(minutes)
          ->excludes(steps);
  train
      ->add_option("--run", command.folder.folder,
                   "Folder for checkpoints and the curve (default: runs/NAME, or a new name beside it)")
      ->check(kPath)
      ->excludes(resume);
  train->add_flag("--overwrite", command.folder.overwrite, "Start anew in a folder that holds a run: its checkpoints go")
      ->excludes(resume);
  train->add_option("--format", options.reading.format, "auto, lines, percent or jsonl")
      ->type_name("TEXT")
      ->transform(CLI::Validator(parse_format, ""));
  train->add_option("--field", options.reading.field, "JSONL field with the text");
  train->add_option("--max-length", options.reading.max_length, "Cut longer texts (bytes; 0: never)")->check(whole(0, kMany));
  train->add_option("--validation", options.validation, "Share of the texts that is held out")->check(kPart);
  train->add_option("--d-model", options.model.d_model, "d_model: features of a token")->check(whole(1, 65'536));
  train->add_option("--depth", options.model.depth, "Number of layers")->check(whole(1, 1'000));
  train->add_option("--heads", options.model.heads, "Attention heads")->check(whole(1, 1'024));
  train->add_option("--kv-heads", options.model.kv_heads, "Key and value heads (0: as many as heads)")->check(whole(0, 1'024));
  train->add_option("--hidden", options.model.hidden, "Width of the feed-forward blocks (0: 8/3 of d_model)")
      ->check(whole(0, 1'000'000));
  train->add_option("--tokens", options.tokens, "Bytes to predict per batch")->check(whole(1, 1'000'000'000));
  train->add_option("--accumulate", options.accumulate, "Batches per step")->check(whole(1, 1'000'000));
  train->add_option("--lr", options.lr, "Peak learning rate")->check(kAboveZero);
  train->add_option("--warmup", options.warmup, "Share of the run in which the learning rate rises")->check(kShare);
  train->add_option("--floor", options.floor, "Share of the learning rate that is left at the end")->check(kShare);
  train->add_option("--beta2", options.beta2, "AdamW's second momentum")->check(kMomentum);
  train->add_option("--weight-decay", options.weight_decay, "AdamW's weight decay")->check(kFromZero);
  train->add_option("--clip", options.clip, "Largest norm of the gradient")->check(kAboveZero);
  train->add_option("--seed", options.seed, "Seed of the starting values and of the order of texts")->check(whole(0, INT64_MAX));
  train->add_option("--save-minutes", options.save_minutes, "Time between checkpoints")->check(kFromZero);
  add_placement(train, command.placement,
                "float32, bf16 with float32 parameters, or auto: what is faster there. A run that is resumed keeps its own");
  train->get_option("--dtype")->excludes(resume);
  train
      ->add_flag("--graph", options.graph,
                 "On a GPU, each step as one graph, where it can be: for small models. A run that is resumed keeps its own")
      ->excludes(resume);
  add_threads(train);
  train->callback([=, &options] {
    if (*resume) return;
    if (!*text) throw CLI::RequiredError("--text (or --resume)");
    if (!*minutes && !*steps) throw CLI::RequiredError("--minutes (or --steps)");
    options.model.seed = options.seed;
  });
  train->footer(
      "Ctrl-C saves and ends; a second one ends at once. On one device, results depend on the options alone, never on the "
      "threads.\n\n"
      "Examples:\n"
      "  deckle train --text quotes.txt --minutes 5\n"
      "  deckle train --text mails.jsonl --field body --steps 20000 --d-model 512 --depth 8 --run runs/mails\n"
      "  deckle train --text quotes.txt --minutes 5 --device cuda --dtype bf16\n"
      "  deckle train --resume runs/mails");
}

void add_sample(CLI::App& app, SampleCommand& command) {
  cli::SampleRequest& request = command.request;
  CLI::App* sample = app.add_subcommand("sample", "Continue prompts with a trained model");
  sample->add_option("run,--run", request.run, "A run's folder, or a checkpoint")->required()->check(kPath);
  sample->add_option("--prompt", request.prompts, "The beginning; may be given several times")->allow_extra_args(false);
  sample->add_option("--length", request.length, "Bytes of a text at most")->check(whole(0, kMany));
  sample->add_option("--texts", request.texts, "Texts of each prompt (0: as many as fit the length together)")
      ->check(whole(0, kMany));
  sample->add_option("--together", request.together, "Texts made at the same time at most; decides the speed alone")
      ->check(whole(1, 65'536));
  sample->add_option("--temperature", request.drawing.temperature, "Below 1: likelier bytes; 0: always the likeliest")
      ->check(kFromZero);
  sample->add_option("--top-k", request.drawing.top_k, "Draw from the k likeliest bytes (0: all)")->check(whole(0, kMany));
  sample->add_option("--seed", request.seed, "Seed of the first text; the second has the next, and so on")
      ->check(whole(0, INT64_MAX));
  sample->add_flag("--words", request.words, "Tell which share of the words occur in the training texts");
  sample->add_flag("--speed", request.speed, "Tell how many tokens a second were made");
  add_placement(sample, command.placement, "float32, bf16, or auto: what is faster there");
  add_threads(sample);
  sample->footer(
      "Examples:\n"
      "  deckle sample runs/mails --length 500\n"
      "  deckle sample runs/mails --prompt 'Dear ' --prompt 'Hello' --temperature 0.7 --top-k 40");
}

std::string explained_op;

CLI::App* add_ops(CLI::App& app) {
  CLI::App* ops = app.add_subcommand("ops", "List the ops, or explain one");
  ops->add_subcommand("explain", "What is known of an op, or of a function made of ops")
      ->add_option("name", explained_op, "Name of the op")
      ->required();
  ops->add_subcommand("nested", "What every op does over the batch, ragged and regular dims of nested tensors");
  ops->add_subcommand("host", "The ops that compute on the host wherever their operands are, and why");
  ops->footer("Examples:\n  deckle ops\n  deckle ops explain softmax\n  deckle ops nested");
  return ops;
}

/// Every command with its options and subcommands.
std::map<std::string, std::vector<std::string>> words_of_commands(const CLI::App& app) {
  std::map<std::string, std::vector<std::string>> result;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    std::vector<std::string>& words = result[command->get_name()];
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& name : option->get_lnames()) words.push_back("--" + name);
    }
    for (const CLI::App* below : command->get_subcommands([](const CLI::App*) { return true; }))
      words.push_back(below->get_name());
  }
  return result;
}

void add_machine(CLI::App& app) {
  CLI::App* machine = app.add_subcommand("machine", "Measure this machine and tell what its products are computed in");
  add_threads(machine);
}

void train(TrainCommand& command) {
  cli::install_interrupts();
  cli::ignore_write_signals();
  const Device device = cli::choose_device(command.placement.device);
  if (!command.resume.empty()) return cli::Trainer(command.resume, device).run();
  command.options.dtype = cli::choose_dtype(command.placement.dtype, device);
  cli::Trainer(command.options, command.folder, device).run();
}

void sample(SampleCommand& command) {
  cli::install_interrupts();
  command.request.device = cli::choose_device(command.placement.device);
  command.request.dtype = cli::choose_dtype(command.placement.dtype, command.request.device);
  cli::print_sample(command.request);
}

/// The first word that no command or option takes, as it was typed, and what may have been meant.
std::string describe_unexpected(const CLI::App& app, std::span<char*> words) {
  const std::vector<std::string> unknown = app.remaining(true);
  const auto found = std::ranges::find_if(words, [&](const char* word) { return std::ranges::count(unknown, word) > 0; });
  if (found == words.end()) return "word (see deckle --help)";
  const std::vector<std::string> known = words_of_commands(app)[words[0]];
  std::string expected = cli::nearest_names(*found, {known.begin(), known.end()});
  if (words[0] == std::string_view("ops") && expected.empty()) expected = "explain, nested, host, or nothing for a list";
  return fmt::format("'{}' (expected {}; see deckle --help)", *found, expected.empty() ? "no more" : expected);
}

/// The commands, where the first word is none of them; else "".
std::string not_a_command(const CLI::App& app, std::string_view word) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) names.push_back(command->get_name());
  const bool known = word == "--help" || word == "-h" || word == "--version";
  if (known || std::ranges::count(names, word) > 0) return "";
  const std::string given = word.empty() ? "" : fmt::format(" '{}'", word);
  return fmt::format("deckle: no command{} (expected {}; see deckle --help)\n", given, fmt::join(names, ", "));
}

int run(int argc, char** argv) {
  CLI::App app("Training on ragged data.", "deckle");
  app.set_version_flag("--version", "deckle " DECKLE_VERSION);
  app.require_subcommand(1);
  TrainCommand train_command;
  SampleCommand sample_command;
  add_train(app, train_command);
  add_sample(app, sample_command);
  CLI::App* ops = add_ops(app);
  add_machine(app);
  std::string shell = "bash";
  app.add_subcommand("completion", "Print the completion of this command line for bash: source <(deckle completion)")
      ->add_option("shell", shell, "bash, for which alone there is one")
      ->check(CLI::Validator(
          [](const std::string& name) {
            return name == "bash" ? "" : fmt::format("'{}' (expected no other shell than bash)", name);
          },
          ""));
  app.footer(
      "Examples:\n"
      "  deckle train --text quotes.txt --minutes 5 --run runs/quotes\n"
      "  deckle sample runs/quotes --length 500\n"
      "  deckle ops explain softmax\n"
      "  source <(deckle completion)");
  const std::span<char*> words(argv + 1, argv + std::max(argc, 1));
  if (const std::string wrong = not_a_command(app, words.empty() ? "" : words[0]); !wrong.empty()) {
    cli::put(stderr, wrong);
    return kUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help) == 0 && std::cout.flush() ? 0 : kFailed;
  } catch (const CLI::ExtrasError&) {
    cli::put(stderr, fmt::format("deckle: unexpected {}\n", describe_unexpected(app, words)));
    return kUsage;
  } catch (
      const CLI::ArgumentMismatch& error) {  // "--steps: 1 required INT missing", "--steps: At Most 1 required but received 2"
    const std::string said = error.what();
    const bool twice = said.find("received") != std::string::npos;
    cli::put(stderr, fmt::format("deckle: {}: {} (expected one; see deckle --help)\n", said.substr(0, said.find(':')),
                                 twice ? "several values are given" : "a value is missing"));
    return kUsage;
  } catch (const CLI::ParseError& error) {
    cli::put(stderr, fmt::format("deckle: {} (see deckle --help)\n", error.what()));
    return kUsage;
  }
  if (app.got_subcommand("train")) train(train_command);
  if (app.got_subcommand("sample")) sample(sample_command);
  if (app.got_subcommand("machine")) cli::put(stdout, cli::describe_machine(cli::measure_machine(), asked_isa() != nullptr));
  if (app.got_subcommand("completion")) cli::put(stdout, cli::bash_completion(words_of_commands(app)));
  if (app.got_subcommand("ops")) {
    cli::put(stdout, ops->got_subcommand("explain")  ? cli::explain_op(explained_op)
                     : ops->got_subcommand("nested") ? cli::list_nested_ops()
                     : ops->got_subcommand("host")   ? cli::list_host_ops()
                                                     : cli::list_ops());
  }
  cli::check_output();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::bad_alloc&) {
    cli::put(stderr, "deckle: out of memory\n");
  } catch (const std::exception& error) {
    cli::put(stderr, fmt::format("deckle: {}\n", error.what()));
  }
  return kFailed;
}
