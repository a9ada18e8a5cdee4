#include "deckle/core/draws.h"

namespace deckle {
namespace {
thread_local DrawScope* innermost = nullptr;
}  // namespace

DrawScope::DrawScope() : outer_(innermost) { innermost = this; }
DrawScope::~DrawScope() { innermost = outer_; }

bool DrawScope::replace(Draw& draw) { return innermost != nullptr && innermost->see(draw); }

bool NoteDraws::see(Draw& draw) {
  const bool replaced = replace_outside(draw);
  draws_.push_back(draw);
  return replaced;
}

bool RepeatDraws::see(Draw& draw) {
  const size_t index = asked_++;
  if (index < draws_.size() && draws_[index].blocks == draw.blocks)
    draw = draws_[index];
  else
    equal_ = equal_ && index >= draws_.size();
  return true;
}

}  // namespace deckle
