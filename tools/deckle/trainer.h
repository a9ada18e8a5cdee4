#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "deckle/io/text_dataset.h"
#include "deckle/optim/adamw.h"
#include "deckle/optim/schedule.h"
#include "tools/deckle/graphed_step.h"
#include "tools/deckle/loss_curve.h"
#include "tools/deckle/model_file.h"
#include "tools/deckle/pace.h"
#include "tools/deckle/progress.h"
#include "tools/deckle/run_folder.h"

namespace deckle::cli {

/// One training run of a decoder on texts, from its options or from a checkpoint. An interrupted and resumed run is bit-equal to
/// an uninterrupted one.
class Trainer {
 public:
  /// A new run, on a device.
  Trainer(const TrainOptions& options, const FolderRequest& folder, Device device);
  /// Resumes the run in a folder from its newest checkpoint, or from a checkpoint file if it is the newest in its folder. It may
  /// have been written on another device; on the same the bits are those of a run that was never interrupted.
  Trainer(const std::filesystem::path& run_or_checkpoint, Device device);

  /// Trains to the end, to the first Ctrl-C, or until writing to stdout fails; saves checkpoints, the first of them before the
  /// first step, and prints progress.
  void run();

 private:
  struct Totals {
    int64_t tokens = 0;       // predicted
    int64_t rows = 0;         // of batches
    int64_t padded_rows = 0;  // rows of the same batches if padded
  };

  struct Found {
    RunFolder folder;
    LoadedModel loaded;
  };
  static Found find_run(const std::filesystem::path& run_or_checkpoint);
  Trainer(Found found, Device device);
  void restore(const io::Checkpoint& checkpoint);
  io::Checkpoint checkpoint() const;
  std::filesystem::path save();
  void write_curve() const;

  void describe() const;
  void prepare_graph();
  void train();
  /// One optimizer step: its loss in nats per predicted byte. None if an interrupt came between its batches: then the step is
  /// left as if it had not begun.
  std::optional<double> step();
  /// The same of given batches, by one graph, and by a call for each op. `lr`: of this step.
  std::optional<StepResult> replay(std::span<const NestedTensor> batches, double lr);
  std::optional<StepResult> call(std::span<const NestedTensor> batches, double lr);
  std::vector<NestedTensor> next_batches();
  Tensor loss_of(const NestedTensor& batch) const;
  /// Mean loss over validation batches, in nats; stops after `tokens` (0: all).
  double validate(int64_t tokens) const;
  void validate_if_due();
  void save_if_due();
  void finish(bool complete);

  TrainOptions options_;
  Device device_;
  std::optional<RunFolder> folder_;
  io::TextDataset training_;
  io::TextDataset validation_;
  nn::DecoderLM model_;
  std::vector<Tensor> parameters_;
  optim::AdamW optimizer_;
  Pace pace_;
  LossCurve curve_;
  Totals totals_;
  io::BatchPosition position_;  // of the next batch
  std::optional<io::Batches> batches_;
  std::optional<GraphedStep> graphed_;
  int64_t texts_ = 0;  // of a batch, that graphs had room for in the run so far; 0: none
  ProgressLine line_;
  int64_t validated_part_ = 0;  // the part of the run that the last validation was for
  double seconds_since_save_ = 0;
  int64_t tokens_at_start_ = 0;  // of this process
  double elapsed_at_start_ = 0;
};

}  // namespace deckle::cli
