#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace deckle::io {

/// How a file is cut into texts: a text per line, `%` on a line of its own between texts, or a JSON object per line.
/// `automatic`: jsonl by the file's ending, percent if some line is `%`, else lines.
enum class TextFormat { automatic, lines, percent, jsonl };

struct TextOptions {
  TextFormat format = TextFormat::automatic;
  std::string field = "text";  // of a JSONL object
  int64_t max_length = 0;      // bytes; longer texts are cut between characters, which stay whole. 0: no limit
};

/// Texts one after another in one buffer.
struct TextStore {
  std::string bytes;
  std::vector<int64_t> offsets{0};

  int64_t size() const { return static_cast<int64_t>(offsets.size()) - 1; }
  std::string_view operator[](int64_t i) const {
    const auto begin = static_cast<size_t>(offsets[static_cast<size_t>(i)]);
    return std::string_view(bytes).substr(begin, static_cast<size_t>(offsets[static_cast<size_t>(i) + 1]) - begin);
  }
  void add(std::string_view text) {
    bytes += text;
    offsets.push_back(static_cast<int64_t>(bytes.size()));
  }
};

/// All texts of the files, in order; texts of nothing but white space are left out. A folder stands for its files by name,
/// without hidden files, links, and index files (x.dat beside x). Throws Error(io): a path that is missing, without texts,
/// or not UTF-8 (with the line).
TextStore read_texts(std::span<const std::filesystem::path> paths, const TextOptions& options = {});

}  // namespace deckle::io
