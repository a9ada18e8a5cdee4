#pragma once

#include <filesystem>
#include <string>

#include "deckle/io/file.h"

namespace deckle::cli {

/// Where a new run is to go.
struct FolderRequest {
  std::string folder;      // empty: runs/NAME after the texts, or a new name beside it
  bool overwrite = false;  // the folder may hold a run, whose checkpoints go
};

/// The folder that a run writes to. No other run gets it until this one ends.
class RunFolder {
 public:
  /// Of a new run on texts at `text`: created where it is missing, and without checkpoints. An Error(io) if the folder that was
  /// asked for is in use, or holds something that may not be overwritten.
  static RunFolder create(const FolderRequest& request, const std::filesystem::path& text);
  /// That exists. An Error(io) if it is in use or cannot be written.
  static RunFolder open(const std::filesystem::path& folder);

  const std::filesystem::path& path() const { return path_; }

 private:
  RunFolder(std::filesystem::path path, io::FolderLock lock) : path_(std::move(path)), lock_(std::move(lock)) {}

  std::filesystem::path path_;
  io::FolderLock lock_;
};

}  // namespace deckle::cli
