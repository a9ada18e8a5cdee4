#pragma once

#include <filesystem>
#include <string>

#include "deckle/io/file.h"

namespace deckle::cli {

/// The destination of a new run.
struct FolderRequest {
  std::string folder;      // empty: runs/NAME after the texts, or a new name if that exists
  bool overwrite = false;  // delete the checkpoints of an earlier run in the folder
};

/// The folder that a run writes to, locked until the run ends.
class RunFolder {
 public:
  /// The folder of a new run on texts at `text`: created if missing, and without checkpoints. An Error(io) if the requested
  /// folder is in use, or holds something that may not be overwritten.
  static RunFolder create(const FolderRequest& request, const std::filesystem::path& text);
  /// An existing folder. An Error(io) if it is in use or not writable.
  static RunFolder open(const std::filesystem::path& folder);

  const std::filesystem::path& path() const { return path_; }

 private:
  RunFolder(std::filesystem::path path, io::FolderLock lock) : path_(std::move(path)), lock_(std::move(lock)) {}

  std::filesystem::path path_;
  io::FolderLock lock_;
};

}  // namespace deckle::cli
