#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

namespace deckle::cli {

/// What the progress line shows.
struct Progress {
  double share = 0;  // done, 0 to 1
  int64_t step = 0;
  double loss = 0;                   // nats per predicted byte
  std::optional<double> validation;  // bits per byte
  double tokens_per_second = 0;
  int64_t memory = 0;  // bytes
  double seconds_left = 0;
};

/// " 62 %|############------|  step 149  loss 1.94 (2.80 bits/byte)  val 2.86  6,512 tok/s  1.1 GB  1:53 left"
std::string progress_text(const Progress& progress);

/// Shows progress: on a terminal one line that is overwritten, elsewhere a line now and then.
class ProgressLine {
 public:
  explicit ProgressLine(std::FILE* stream);

  void show(const Progress& progress);
  /// Prints `text` on a line of its own, above the progress line.
  void note(const std::string& text);
  /// Prints the last state and a newline.
  void finish();

 private:
  void print(const Progress& progress);

  std::FILE* stream_;
  bool terminal_;
  bool open_ = false;  // the cursor is in the progress line
  std::optional<Progress> last_;
  double printed_share_ = -1;
  std::chrono::steady_clock::time_point printed_at_;
};

/// Nats per byte as bits per byte.
double bits(double nats);

}  // namespace deckle::cli
