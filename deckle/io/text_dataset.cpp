#include "deckle/io/text_dataset.h"

#include <algorithm>
#include <numeric>

#include "deckle/base/check.h"
#include "deckle/base/philox.h"
#include "deckle/io/utf8.h"

namespace deckle::io {

namespace {

/// Hash of a text, spread well in every bit: FNV-1a, then a Philox block.
uint64_t hash_text(std::string_view text, uint64_t seed) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char byte : text) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3u;
  const auto words = PhiloxStream{seed, 0}.block(hash);
  return (uint64_t{words[1]} << 32) | words[0];
}

}  // namespace

TextDataset::TextDataset(TextStore store) : store_(std::make_shared<const TextStore>(std::move(store))) {
  texts_.resize(static_cast<size_t>(store_->size()));
  std::iota(texts_.begin(), texts_.end(), 0);
}

TextDataset::TextDataset(const std::filesystem::path& path, const TextOptions& options)
    : TextDataset(std::span(&path, 1), options) {}

TextDataset::TextDataset(std::span<const std::filesystem::path> paths, const TextOptions& options)
    : TextDataset(read_texts(paths, options)) {}

TextDataset TextDataset::from_texts(std::span<const std::string> texts) {
  TextStore store;
  for (size_t i = 0; i < texts.size(); ++i) {
    // Texts end at a byte that UTF-8 never has.
    if (const size_t bad = find_invalid_utf8(texts[i]); bad != std::string::npos) {
      call_as("TextDataset::from_texts", [&] {
        fail(ErrorKind::io, "text {}: not valid UTF-8 (byte 0x{:02x} at {})", i, static_cast<unsigned char>(texts[i][bad]), bad);
      });
    }
    store.add(texts[i]);
  }
  return TextDataset(std::move(store));
}

LengthSummary TextDataset::lengths() const {
  if (texts_.empty()) return {};
  std::vector<int64_t> sorted;
  for (int64_t i = 0; i < size(); ++i) sorted.push_back(static_cast<int64_t>((*this)[i].size()));
  std::sort(sorted.begin(), sorted.end());
  return {sorted.front(), sorted.back(), sorted[sorted.size() / 2], std::accumulate(sorted.begin(), sorted.end(), int64_t{0})};
}

double TextDataset::padding_share(const BatchOptions& options) const {
  BatchOptions once = options;
  once.epochs = 1;
  once.start = {};
  int64_t rows = 0;
  int64_t padded = 0;
  for (const NestedTensor& batch : batches(once)) {
    rows += batch.ragged()->rows();
    padded += batch.ragged()->components() * batch.ragged()->max_size();
  }
  return padded == 0 ? 0 : 1 - static_cast<double>(rows) / static_cast<double>(padded);
}

std::pair<TextDataset, TextDataset> TextDataset::split(double share, uint64_t seed) const try {
  check(share > 0 && share < 1, "the share of validation texts is {} (expected between 0 and 1)", share);
  std::vector<std::pair<uint64_t, int64_t>> hashed;
  for (const int64_t text : texts_) hashed.emplace_back(hash_text((*store_)[text], seed), text);
  // The limit of the hashes is `share` of their range; a small set may need another for both parts to have a text.
  auto limit = static_cast<uint64_t>(share * 0x1p64);
  if (!hashed.empty()) {
    const auto [lowest, highest] = std::minmax_element(hashed.begin(), hashed.end());
    limit = std::clamp(limit, lowest->first + 1, std::max(highest->first, lowest->first + 1));
  }
  std::vector<int64_t> training;
  std::vector<int64_t> validation;
  for (const auto& [hash, text] : hashed) (hash < limit ? validation : training).push_back(text);
  check(!training.empty() && !validation.empty(),
        "{} text{} cannot be split in a training and a validation part (expected two different texts)", texts_.size(),
        texts_.size() == 1 ? "" : "s");
  return {TextDataset(store_, std::move(training)), TextDataset(store_, std::move(validation))};
} catch (...) {
  rethrow_from("TextDataset::split");
}

uint64_t TextDataset::fingerprint() const {
  uint64_t hash = static_cast<uint64_t>(size());
  for (const int64_t text : texts_) hash = hash * 0x9E3779B97F4A7C15u + hash_text((*store_)[text], 0);
  return hash;
}

}  // namespace deckle::io
