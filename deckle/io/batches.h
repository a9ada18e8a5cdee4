#pragma once

#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>

#include "deckle/io/text_files.h"
#include "deckle/nested/nested_tensor.h"

namespace deckle::io {

/// Stands before and after every text. The byte never occurs in UTF-8, so a vocabulary of 256 has room for it.
inline constexpr int64_t kTextBoundary = 0xFF;

/// A place in the endless sequence of shuffled epochs; checkpoints keep it.
struct BatchPosition {
  int64_t epoch = 0;
  int64_t text = 0;  // index in the epoch's order

  friend bool operator==(const BatchPosition&, const BatchPosition&) = default;
};

struct BatchOptions {
  int64_t tokens = 8192;  // budget of tokens to predict per batch: a text counts its bytes and its end
  uint64_t seed = 0;      // of the order, which differs in every epoch
  bool shuffle = true;
  int64_t epochs = 1;  // 0: without end
  BatchPosition start;
  int ahead = 2;  // batches prepared in the background
};

/// Texts as one nested tensor [texts, length + 2] of int64 tokens: boundary, bytes, boundary.
struct TextBatch {
  NestedTensor tokens;
  BatchPosition next;  // where the following batch starts
};

/// A pass over texts in batches, which a background thread prepares. Which batches come depends on the texts and the options
/// alone. Movable; one consumer. In a child of fork, which has no such thread, next() makes what the parent had not taken.
class Batches {
 public:
  Batches(std::shared_ptr<const TextStore> store, const std::vector<int64_t>& texts, const BatchOptions& options);
  ~Batches();
  Batches(Batches&&) noexcept;

  /// The next batch; nothing at the end. A text longer than the budget is a batch of its own. Rethrows what failed in the
  /// background.
  std::optional<TextBatch> next();

  class Iterator;
  Iterator begin();
  std::default_sentinel_t end() const { return {}; }

 private:
  struct Producer;
  std::unique_ptr<Producer> producer_;
};

/// For `for (const NestedTensor& batch : batches)`.
class Batches::Iterator {
 public:
  explicit Iterator(Batches& batches) : batches_(&batches), current_(batches.next()) {}
  const NestedTensor& operator*() const { return current_->tokens; }
  Iterator& operator++() {
    current_ = batches_->next();
    return *this;
  }
  bool operator==(std::default_sentinel_t) const { return !current_; }

 private:
  Batches* batches_;
  std::optional<TextBatch> current_;
};

inline Batches::Iterator Batches::begin() { return Iterator(*this); }

/// The given texts, in that order, as one batch.
NestedTensor make_text_batch(const TextStore& store, std::span<const int64_t> texts);

}  // namespace deckle::io
