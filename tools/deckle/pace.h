#pragma once

#include <cstdint>

#include "deckle/io/checkpoint.h"

namespace deckle::cli {

/// Progress of a run, 0 to 1, the only input of the learning rate schedule. By steps it is exact. By time, every step adds a
/// planned amount: the plan is updated now and then from the measured speed and is part of the checkpoint, so that a resumed run
/// repeats the steps up to the next plan bit for bit.
class Pace {
 public:
  /// Ends after `steps` steps.
  static Pace by_steps(int64_t steps);
  /// Ends after about `seconds` of running.
  static Pace by_time(double seconds);

  double progress() const { return progress_; }
  bool done() const { return progress_ >= 1; }
  int64_t steps_done() const { return done_; }
  /// Estimated remaining time.
  double seconds_left() const;
  double elapsed() const { return elapsed_; }

  /// A step that took `seconds` has ended.
  void step_done(double seconds);
  /// Adds `seconds` spent outside of steps (validation, checkpoints).
  void pause(double seconds) {
    elapsed_ += seconds;
    planned_elapsed_ += seconds;  // not part of the time per step
  }

  void save(io::Checkpoint& checkpoint) const;
  static Pace load(const io::Checkpoint& checkpoint);

 private:
  void plan();

  int64_t steps_ = 0;  // 0: by time
  double seconds_ = 0;
  int64_t done_ = 0;
  double progress_ = 0;
  double increment_ = 0;  // of progress per step, by time
  double elapsed_ = 0;
  int64_t planned_step_ = 0;  // when the plan was made: steps done, and elapsed
  double planned_elapsed_ = 0;
};

}  // namespace deckle::cli
