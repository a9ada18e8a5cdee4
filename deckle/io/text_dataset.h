#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "deckle/io/batches.h"
#include "deckle/io/text_files.h"

namespace deckle::io {

/// Shortest, longest, median and sum of the lengths of texts, in bytes.
struct LengthSummary {
  int64_t min = 0;
  int64_t max = 0;
  int64_t median = 0;
  int64_t total = 0;
};

/// Texts of any length: the components of ragged batches. A cheap value: copies and splits share the bytes.
class TextDataset {
 public:
  /// All texts of a file, or of the files of a folder (see read_texts).
  explicit TextDataset(const std::filesystem::path& path, const TextOptions& options = {});
  explicit TextDataset(std::span<const std::filesystem::path> paths, const TextOptions& options = {});
  /// An Error(io) if one is not UTF-8.
  static TextDataset from_texts(std::span<const std::string> texts);

  int64_t size() const { return static_cast<int64_t>(texts_.size()); }
  std::string_view operator[](int64_t i) const { return (*store_)[texts_[static_cast<size_t>(i)]]; }
  LengthSummary lengths() const;

  /// The share of rows, 0 to 1, that padding the batches of one epoch to their longest texts would add to them.
  double padding_share(const BatchOptions& options) const;

  /// A training and a validation part with about `share` (0 to 1) of the texts. A text's part depends on its bytes and the
  /// seed alone, so equal texts are never in both, and adding texts moves no others. Both parts are non-empty, or it is an Error.
  std::pair<TextDataset, TextDataset> split(double share, uint64_t seed = 0) const;

  /// A number that changes when any text changes: checkpoints keep it to refuse other data.
  uint64_t fingerprint() const;

  /// A pass over the texts; see BatchOptions. The data set need not outlive it.
  Batches batches(const BatchOptions& options = {}) const { return Batches(store_, texts_, options); }

 private:
  TextDataset(std::shared_ptr<const TextStore> store, std::vector<int64_t> texts)
      : store_(std::move(store)), texts_(std::move(texts)) {}
  explicit TextDataset(TextStore store);

  std::shared_ptr<const TextStore> store_;
  std::vector<int64_t> texts_;  // indices in the store
};

}  // namespace deckle::io
