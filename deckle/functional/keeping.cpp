#include "deckle/functional/keeping.h"

namespace deckle::functional {
namespace {
thread_local KeepingScope* innermost = nullptr;
}  // namespace

KeepingScope::KeepingScope() : outer_(innermost) { innermost = this; }
KeepingScope::~KeepingScope() { innermost = outer_; }

bool KeepingScope::keeps(const std::function<bool()>& decide) { return innermost != nullptr ? innermost->ask(decide) : decide(); }

bool NoteKeeping::ask(const std::function<bool()>& decide) {
  const bool answer = ask_outside(decide);
  answers_.push_back(answer);
  return answer;
}

bool RepeatKeeping::ask(const std::function<bool()>& decide) {
  const size_t index = asked_++;
  return index < answers_.size() ? answers_[index] : decide();
}

}  // namespace deckle::functional
