#pragma once

namespace deckle {

/// Whether ops on this thread record history for backward. On by default.
bool grad_enabled();

/// Sets the recording of history for a scope, on the calling thread.
class GradMode {
 public:
  explicit GradMode(bool enabled);
  ~GradMode();
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  bool before_;
};

/// No history inside the scope.
struct NoGrad : GradMode {
  NoGrad() : GradMode(false) {}
};

/// History again inside a NoGrad scope.
struct EnableGrad : GradMode {
  EnableGrad() : GradMode(true) {}
};

}  // namespace deckle
