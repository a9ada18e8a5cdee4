#include "deckle/io/file.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <random>

#include "deckle/base/check.h"

namespace deckle::io {

namespace {

constexpr std::string_view kTemporaryMark = ".deckle-tmp-";

[[noreturn]] void fail_with_errno(const std::filesystem::path& path, std::string_view action) {
  const int error = errno;
  fail_in(path, "cannot {}: {}", action, std::strerror(error));
}

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return value_; }

 private:
  int value_;
};

/// fsync, which a signal does not end.
bool sync(int descriptor) {
  while (::fsync(descriptor) != 0) {
    if (errno != EINTR) return false;
  }
  return true;
}

/// Makes a rename durable. Some file systems cannot sync a folder; they say EINVAL.
void sync_folder(const std::filesystem::path& folder) {
  const Descriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.get() < 0) fail_with_errno(folder, "open the folder");
  if (!sync(descriptor.get()) && errno != EINVAL) fail_with_errno(folder, "sync the folder");
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  // Do not block on a pipe without a writer; pipes are refused anyway.
  const Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (descriptor.get() < 0) fail_with_errno(path, "open");
  struct stat status {};
  if (::fstat(descriptor.get(), &status) != 0) fail_with_errno(path, "read its size");
  if (!S_ISREG(status.st_mode)) fail_in(path, "not a regular file");
  size_ = static_cast<size_t>(status.st_size);
  if (size_ == 0) return;  // an empty mapping is an error to the kernel
  void* memory = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor.get(), 0);
  if (memory == MAP_FAILED) fail_with_errno(path, "map");
  data_ = static_cast<const std::byte*>(memory);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
  static std::atomic<uint64_t> counter{0};
  temporary_ = path_;
  // With a random number, as processes of several containers or hosts may have one id and write to one folder.
  temporary_ += fmt::format("{}{}-{}-{:08x}", kTemporaryMark, ::getpid(), counter.fetch_add(1), std::random_device()());
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail_with_errno(path_, "create");
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    // Linux writes at most 2 GiB in a call.
    const ssize_t written = ::write(descriptor_, bytes.data(), std::min<size_t>(bytes.size(), size_t{1} << 30));
    if (written < 0) {
      if (errno == EINTR) continue;
      fail_with_errno(path_, "write");
    }
    if (written == 0) fail_in(path_, "cannot write: the file takes no more bytes");
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

void AtomicFile::commit() {
  if (!sync(descriptor_)) fail_with_errno(path_, "sync");
  const int descriptor = descriptor_;
  descriptor_ = -1;
  if (::close(descriptor) != 0 && errno != EINTR) fail_with_errno(path_, "close");  // a signal: it is closed, and was synced
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail_with_errno(path_, "replace");
  temporary_.clear();
  sync_folder(folder_of(path_));
}

void write_file(const std::filesystem::path& path, std::string_view contents) {
  AtomicFile file(path);
  file.write(contents);
  file.commit();
}

void make_folder(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return;
  const bool taken = std::filesystem::exists(path, ignored);
  fail_in(path, "cannot create the folder: {}", taken ? "a file is in its place" : error.message());
}

std::optional<FolderLock> FolderLock::take(const std::filesystem::path& folder) {
  FolderLock lock(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (lock.descriptor_ < 0) fail_with_errno(folder, "open the folder");
  if (::flock(lock.descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return std::nullopt;
  return lock;
}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void remove_temporary_files(const std::filesystem::path& folder) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().filename().string().find(kTemporaryMark) != std::string::npos) ::unlink(entry->path().c_str());
  }
}

}  // namespace deckle::io
