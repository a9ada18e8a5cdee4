#pragma once

#include <cstddef>
#include <vector>

#include "deckle/base/philox.h"

namespace deckle {

/// A piece of random numbers that a Generator gave.
struct Draw {
  PhiloxStream stream;
  uint64_t blocks = 0;  // of four words
};

/// While it lives it sees what Generators, the threads' own and others, give on this thread. Scopes end in the reverse of their
/// order.
class DrawScope {
 public:
  DrawScope(const DrawScope&) = delete;
  DrawScope& operator=(const DrawScope&) = delete;

  /// Called by a Generator that would give `draw`. Whether a scope has put another in its place: the generator then stays as it
  /// is.
  static bool replace(Draw& draw);

 protected:
  DrawScope();
  ~DrawScope();
  /// What the scopes around this one make of `draw`.
  bool replace_outside(Draw& draw) const { return outer_ != nullptr && outer_->see(draw); }

 private:
  virtual bool see(Draw& draw) = 0;

  DrawScope* const outer_;
};

/// Appends what is given to `draws`.
class NoteDraws final : public DrawScope {
 public:
  explicit NoteDraws(std::vector<Draw>& draws) : draws_(draws) {}

 private:
  bool see(Draw& draw) override;

  std::vector<Draw>& draws_;
};

/// Gives `draws` again, in their order. Scopes around this one see nothing.
class RepeatDraws final : public DrawScope {
 public:
  explicit RepeatDraws(const std::vector<Draw>& draws) : draws_(draws) {}
  size_t asked() const { return asked_; }
  /// Whether each was asked for by as many blocks as it has. What is asked for otherwise is what the generator stands at.
  bool equal() const { return equal_; }

 private:
  bool see(Draw& draw) override;

  const std::vector<Draw>& draws_;
  size_t asked_ = 0;
  bool equal_ = true;
};

}  // namespace deckle
