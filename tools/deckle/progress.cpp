#include "tools/deckle/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tools/deckle/numbers.h"
#include "tools/deckle/output.h"

namespace deckle::cli {

namespace {

constexpr int kBarWidth = 18;
constexpr std::chrono::milliseconds kRedraw{100};
constexpr double kQuietShare = 0.05;  // off a terminal: a line per this share of the run

}  // namespace

double bits(double nats) { return nats / std::numbers::ln2; }

std::string progress_text(const Progress& progress) {
  const double share = std::clamp(progress.share, 0.0, 1.0);
  const int filled = static_cast<int>(share * kBarWidth);
  std::string text =
      fmt::format("{:3.0f} %|{}{}|  step {}  loss {:.2f} ({:.2f} bits/byte)", std::floor(share * 100),
                  std::string(static_cast<size_t>(filled), '#'), std::string(static_cast<size_t>(kBarWidth - filled), '-'),
                  with_commas(progress.step), progress.loss, bits(progress.loss));
  if (progress.validation) text += fmt::format("  val {:.2f}", *progress.validation);
  text += fmt::format("  {} tok/s  {}  {} left", with_commas(std::llround(progress.tokens_per_second)),
                      bytes_text(static_cast<double>(progress.memory)), duration_text(progress.seconds_left));
  return text;
}

ProgressLine::ProgressLine(std::FILE* stream) : stream_(stream), terminal_(::isatty(::fileno(stream)) == 1) {}

void ProgressLine::print(const Progress& progress) {
  // Erasing after the text, not before it, avoids flicker.
  put(stream_, fmt::format("{}{}{}", terminal_ ? "\r" : "", progress_text(progress), terminal_ ? "\x1b[K" : "\n"));
  open_ = terminal_;
  printed_at_ = std::chrono::steady_clock::now();
  printed_share_ = progress.share;
}

void ProgressLine::show(const Progress& progress) {
  last_ = progress;
  const bool due =
      terminal_ ? std::chrono::steady_clock::now() - printed_at_ >= kRedraw : progress.share >= printed_share_ + kQuietShare;
  if (printed_share_ < 0 || due) print(progress);
}

void ProgressLine::note(const std::string& text) {
  put(stream_, fmt::format("{}{}\n", open_ ? "\r\x1b[K" : "", text));
  open_ = false;
  if (terminal_ && last_) print(*last_);
}

void ProgressLine::finish() {
  if (last_ && printed_share_ != last_->share) print(*last_);
  if (open_) put(stream_, "\n");
  open_ = false;
}

}  // namespace deckle::cli
