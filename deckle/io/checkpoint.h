#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "deckle/io/safetensors.h"

namespace deckle::io {

/// Everything needed to resume a run: tensors by name, and metadata (numbers, settings) as text.
struct Checkpoint {
  int64_t step = 0;
  TensorMap tensors;
  Metadata metadata;
  std::filesystem::path file = {};  // that it was read from, which errors name

  void set(const std::string& key, int64_t value);
  void set(const std::string& key, uint64_t value);
  /// Kept to the last bit.
  void set(const std::string& key, double value);
  void set(const std::string& key, std::string value);

  /// The value of a key; an Error(io) if it is missing or is no such number.
  int64_t integer(const std::string& key) const;
  uint64_t natural(const std::string& key) const;
  double real(const std::string& key) const;
  const std::string& text(const std::string& key) const;
};

/// Writes `folder`/step-N.safetensors atomically and returns its path. Keeps the newest `keep` checkpoints up to this step; those
/// of later steps belong to another run and are kept, as are files that are only named like checkpoints.
std::filesystem::path save_checkpoint(const Checkpoint& checkpoint, const std::filesystem::path& folder, int keep = 2);

/// Reads a checkpoint file; an Error(io) if it is none, of another format version, or damaged.
Checkpoint load_checkpoint(const std::filesystem::path& path);

/// The checkpoints of `folder`, of whatever version, the largest step first: not files that are only named like one or cut short.
/// An Error(io) if a file of such a name cannot be opened.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& folder);

/// The checkpoint with the largest step in `folder`; `folder` itself if it is a file. An Error(io) if there is none.
std::filesystem::path latest_checkpoint(const std::filesystem::path& folder);

/// Removes all checkpoints of `folder`, and nothing else.
void remove_checkpoints(const std::filesystem::path& folder);

}  // namespace deckle::io
