#include "tools/deckle/pace.h"

#include <algorithm>

#include "deckle/base/check.h"

namespace deckle::cli {

namespace {

constexpr double kPlanShare = 0.02;  // of the time, between plans
constexpr int64_t kFirstSteps = 4;   // each replans: the first step is slow and the only measurement

}  // namespace

Pace Pace::by_steps(int64_t steps) {
  check(steps >= 1, "a run of {} steps (expected 1 or more)", steps);
  Pace pace;
  pace.steps_ = steps;
  return pace;
}

Pace Pace::by_time(double seconds) {
  check(seconds > 0, "a run of {} seconds (expected more than 0)", seconds);
  Pace pace;
  pace.seconds_ = seconds;
  return pace;
}

double Pace::seconds_left() const {
  if (steps_ == 0) return std::max(0.0, seconds_ - elapsed_);
  return done_ == 0 ? 0 : elapsed_ / static_cast<double>(done_) * static_cast<double>(steps_ - done_);
}

void Pace::step_done(double seconds) {
  elapsed_ += seconds;
  ++done_;
  if (steps_ > 0) {
    progress_ = static_cast<double>(done_) / static_cast<double>(steps_);
    return;
  }
  if (done_ == 1) plan();  // nothing is known before the first step
  progress_ = std::min(1.0, progress_ + increment_);
  if (done_ > planned_step_ && (done_ <= kFirstSteps || elapsed_ - planned_elapsed_ >= kPlanShare * seconds_)) plan();
}

/// Distributes the remaining progress over the steps that fit the remaining time at the speed since the last plan.
void Pace::plan() {
  const double step_seconds = (elapsed_ - planned_elapsed_) / static_cast<double>(done_ - planned_step_);
  const double left = seconds_ - elapsed_;
  // Less than half a step left: the run is over.
  if (left < 0.5 * step_seconds) {
    progress_ = 1;
    return;
  }
  increment_ = (1 - progress_) / std::max(1.0, left / step_seconds);
  planned_step_ = done_;
  planned_elapsed_ = elapsed_;
}

void Pace::save(io::Checkpoint& checkpoint) const {
  checkpoint.set("pace.steps", steps_);
  checkpoint.set("pace.seconds", seconds_);
  checkpoint.set("pace.done", done_);
  checkpoint.set("pace.progress", progress_);
  checkpoint.set("pace.increment", increment_);
  checkpoint.set("pace.elapsed", elapsed_);
  checkpoint.set("pace.planned_step", planned_step_);
  checkpoint.set("pace.planned_elapsed", planned_elapsed_);
}

Pace Pace::load(const io::Checkpoint& checkpoint) {
  Pace pace;
  pace.steps_ = checkpoint.integer("pace.steps");
  pace.seconds_ = checkpoint.real("pace.seconds");
  pace.done_ = checkpoint.integer("pace.done");
  pace.progress_ = checkpoint.real("pace.progress");
  pace.increment_ = checkpoint.real("pace.increment");
  pace.elapsed_ = checkpoint.real("pace.elapsed");
  pace.planned_step_ = checkpoint.integer("pace.planned_step");
  pace.planned_elapsed_ = checkpoint.real("pace.planned_elapsed");
  return pace;
}

}  // namespace deckle::cli
