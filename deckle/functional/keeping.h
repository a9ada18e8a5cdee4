#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace deckle::functional {

/// Sees which transforms of reverse mode keep their graph on this thread while it lives: a function that is called again has to
/// save the same again, but a variable that it captures, whose transform has returned meanwhile, is nobody's then. Scopes end in
/// the reverse of their order.
class KeepingScope {
 public:
  KeepingScope(const KeepingScope&) = delete;
  KeepingScope& operator=(const KeepingScope&) = delete;

  /// What `decide` says, or said at the first call.
  static bool keeps(const std::function<bool()>& decide);

 protected:
  KeepingScope();
  ~KeepingScope();
  /// What the scopes around this one say.
  bool ask_outside(const std::function<bool()>& decide) const { return outer_ != nullptr ? outer_->ask(decide) : decide(); }

 private:
  virtual bool ask(const std::function<bool()>& decide) = 0;

  KeepingScope* const outer_;
};

/// Appends each answer to `answers`.
class NoteKeeping final : public KeepingScope {
 public:
  explicit NoteKeeping(std::vector<bool>& answers) : answers_(answers) {}

 private:
  bool ask(const std::function<bool()>& decide) override;

  std::vector<bool>& answers_;
};

/// Gives `answers` again, in their order, and decides what is asked beyond them. Scopes around this one see nothing.
class RepeatKeeping final : public KeepingScope {
 public:
  explicit RepeatKeeping(const std::vector<bool>& answers) : answers_(answers) {}

 private:
  bool ask(const std::function<bool()>& decide) override;

  const std::vector<bool>& answers_;
  size_t asked_ = 0;
};

}  // namespace deckle::functional
