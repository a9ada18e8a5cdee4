#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "deckle/base/check.h"

namespace deckle::io {

/// Throws Error(io) of the file or folder `path`.
template <typename... Args>
[[noreturn]] void fail_in(const std::filesystem::path& path, fmt::format_string<Args...> text, Args&&... args) {
  Error error(ErrorKind::io, fmt::format(text, std::forward<Args>(args)...));
  error.set_op(path.string());
  throw error;
}

/// body(), whose Errors name their files themselves; where the host has no memory left for it, the Error is one of `path`.
template <typename Body>
decltype(auto) call_on(const std::filesystem::path& path, Body&& body) try {
  return body();
} catch (const Error&) {
  throw;
} catch (...) {
  rethrow_from(path.native());
}

/// The bytes of a regular file, mapped read-only. The mapping keeps a file alive that is replaced meanwhile.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

/// Writes a file so that, whatever happens, `path` is afterwards the old file or the complete new one: the bytes go to a
/// temporary file in the same folder, which commit() syncs and renames. Without commit() the temporary file is removed.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::string_view bytes);
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
};

/// Writes `contents` through an AtomicFile.
void write_file(const std::filesystem::path& path, std::string_view contents);

/// Creates a folder and its parents; an Error(io) that names it if that fails.
void make_folder(const std::filesystem::path& path);

/// An exclusive advisory lock on a folder, against this process too, released at the end of the scope or on exit, crashes
/// included. Nothing is written, and a folder that the file system cannot lock counts as unlocked.
class FolderLock {
 public:
  /// Empty if the folder is locked.
  static std::optional<FolderLock> take(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FolderLock& operator=(FolderLock&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }

 private:
  explicit FolderLock(int descriptor) : descriptor_(descriptor) {}

  int descriptor_ = -1;
};

/// Removes temporary files that a killed writer left in `folder`. Only for folders with one writer.
void remove_temporary_files(const std::filesystem::path& folder);

}  // namespace deckle::io
