#include "tools/deckle/run_folder.h"

#include <fmt/format.h>

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "deckle/base/check.h"
#include "deckle/io/checkpoint.h"

namespace deckle::cli {

namespace {

namespace fs = std::filesystem;

/// Whether `folder` exists and is not empty; file system errors name the folder.
bool holds_something(const fs::path& folder) {
  std::error_code error;
  const bool empty = !fs::exists(folder, error) || (fs::is_directory(folder, error) && fs::is_empty(folder, error));
  if (error && error != std::errc::no_such_file_or_directory) io::fail_in(folder, "cannot read the folder: {}", error.message());
  return !empty;
}

fs::path default_folder(const fs::path& text, int number) {
  fs::path path = fs::absolute(text).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  const std::string name = path.stem().string();
  return fs::path("runs") / (number == 1 ? name : fmt::format("{}-{}", name, number));
}

/// Fails now instead of after hours of training.
void check_writable(const fs::path& folder) {
  if (::access(folder.c_str(), W_OK | X_OK) != 0) io::fail_in(folder, "cannot write in the folder: {}", std::strerror(errno));
}

}  // namespace

RunFolder RunFolder::open(const fs::path& folder) {
  std::optional<io::FolderLock> lock = io::FolderLock::take(folder);
  if (!lock) io::fail_in(folder, "another run is using the folder");
  check_writable(folder);
  io::remove_temporary_files(folder);  // of a run that was killed
  return {folder, std::move(*lock)};
}

RunFolder RunFolder::create(const FolderRequest& request, const fs::path& text) {
  if (!request.folder.empty()) {
    io::make_folder(request.folder);
    RunFolder run = open(request.folder);
    if (holds_something(run.path()) && !request.overwrite) {
      io::fail_in(request.folder, "there is a run already (go on with it: --resume {})", request.folder);
    }
    io::remove_checkpoints(run.path());
    return run;
  }
  for (int number = 1;; ++number) {
    const fs::path folder = default_folder(text, number);
    if (holds_something(folder)) continue;
    io::make_folder(folder);
    // Another run may have taken the lock first, or even finished.
    std::optional<io::FolderLock> lock = io::FolderLock::take(folder);
    if (!lock || holds_something(folder)) continue;
    check_writable(folder);
    return {folder, std::move(*lock)};
  }
}

}  // namespace deckle::cli
