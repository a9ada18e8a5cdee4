// Linked into a test or loaded before the C library (LD_PRELOAD): fails calls that write to files of a folder.
//   FAIL_IN=folder   only files below it       FAIL_AT=n   the n-th such call, counted from 1, and all later ones: a full disk
//   FAIL_WITH=EIO    that call alone: a bad disk           FAIL_SHORT=n  write takes at most n bytes a call
//   FAIL_WITH=EINTR  that call alone: a signal, if it is a write, fsync or close
//   FAIL_COUNT=file  writes there how many calls there were
// Calls: open, openat, creat and fopen for writing, write, pwrite, writev, ftruncate, fsync, fdatasync, close of what was opened
// for writing, rename, mkdir, and their forms with another name. A file of which some bytes came by another way ends the process
// when it is renamed.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

namespace {

std::atomic<long> calls{0};

template <typename F>
F next(const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

bool inside(const char* path) {
  const char* folder = std::getenv("FAIL_IN");
  return folder != nullptr && std::strncmp(path, folder, std::strlen(folder)) == 0;
}

bool inside(int descriptor) {
  char link[64], path[PATH_MAX];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return false;
  path[length] = 0;
  return inside(path);
}

int failure() {
  const char* name = std::getenv("FAIL_WITH");
  if (name != nullptr && std::strcmp(name, "EINTR") == 0) return EINTR;
  return name != nullptr && std::strcmp(name, "EIO") == 0 ? EIO : ENOSPC;
}

bool fails(bool may_be_interrupted = false) {
  const char* at = std::getenv("FAIL_AT");
  if (failure() == EINTR && !may_be_interrupted) return false;
  const long call = ++calls;
  if (at == nullptr || (failure() == ENOSPC ? call < std::atol(at) : call != std::atol(at))) return false;
  errno = failure();
  return true;
}

size_t taken(size_t size) {
  const char* most = std::getenv("FAIL_SHORT");
  return most == nullptr ? size : std::min(size, static_cast<size_t>(std::atol(most)));
}

bool writes(int flags) { return (flags & O_ACCMODE) != O_RDONLY; }

/// How many bytes of a file came through the calls below.
class Written {
 public:
  void add(int descriptor, ssize_t bytes) {
    struct stat status {};
    if (bytes <= 0 || !inside(descriptor) || fstat(descriptor, &status) != 0) return;
    const std::lock_guard lock(mutex_);
    bytes_[status.st_ino] += bytes;
  }
  void forget() {
    const std::lock_guard lock(mutex_);
    bytes_.clear();
  }
  void check(const char* path) {
    struct stat status {};
    if (stat(path, &status) != 0 || !S_ISREG(status.st_mode)) return;
    const std::lock_guard lock(mutex_);
    const off_t known = bytes_[status.st_ino];
    bytes_.erase(status.st_ino);
    if (known == status.st_size) return;
    std::fprintf(stderr, "failing_writes: %s has %ld bytes, %ld came through calls that are made to fail\n", path,
                 static_cast<long>(status.st_size), static_cast<long>(known));
    std::abort();
  }

 private:
  std::mutex mutex_;
  std::map<ino_t, off_t> bytes_;
};

Written& written() {
  static auto* const instance = new Written;  // outlives whatever still writes when the process ends
  return *instance;
}

ssize_t counted(int descriptor, ssize_t bytes) {
  const int error = errno;
  written().add(descriptor, bytes);
  errno = error;
  return bytes;
}

struct Report {
  ~Report() {
    const char* path = std::getenv("FAIL_COUNT");
    std::FILE* file = path != nullptr ? std::fopen(path, "w") : nullptr;
    if (file == nullptr) return;
    std::fprintf(file, "%ld\n", calls.load());
    std::fclose(file);
  }
} report;

int open_as(const char* name, const char* path, int flags, mode_t mode) {
  if (writes(flags) && inside(path) && fails()) return -1;
  return next<int (*)(const char*, int, ...)>(name)(path, flags, mode);
}

int open_at_as(const char* name, int folder, const char* path, int flags, mode_t mode) {
  if (writes(flags) && (inside(path) || (path[0] != '/' && inside(folder))) && fails()) return -1;
  return next<int (*)(int, const char*, int, ...)>(name)(folder, path, flags, mode);
}

std::FILE* fopen_as(const char* name, const char* path, const char* mode) {
  if (std::strpbrk(mode, "wa+") != nullptr && inside(path) && fails()) return nullptr;
  return next<std::FILE* (*)(const char*, const char*)>(name)(path, mode);
}

ssize_t pwrite_as(const char* name, int descriptor, const void* data, size_t size, off_t at) {
  if (inside(descriptor) && fails()) return -1;
  return counted(descriptor, next<ssize_t (*)(int, const void*, size_t, off_t)>(name)(descriptor, data, size, at));
}

int ftruncate_as(const char* name, int descriptor, off_t size) {
  if (inside(descriptor) && fails()) return -1;
  return next<int (*)(int, off_t)>(name)(descriptor, size);
}

}  // namespace

// The mode of an open call that has one.
#define DECKLE_MODE_OF(flags)    \
  mode_t mode = 0;               \
  if (((flags)&O_CREAT) != 0) {  \
    va_list rest;                \
    va_start(rest, flags);       \
    mode = va_arg(rest, mode_t); \
    va_end(rest);                \
  }

extern "C" {

ssize_t write(int descriptor, const void* data, size_t size) {
  if (inside(descriptor) && fails(true)) return -1;
  if (inside(descriptor)) size = taken(size);
  return counted(descriptor, next<ssize_t (*)(int, const void*, size_t)>("write")(descriptor, data, size));
}

ssize_t writev(int descriptor, const struct iovec* parts, int count) {
  if (inside(descriptor) && fails()) return -1;
  return counted(descriptor, next<ssize_t (*)(int, const struct iovec*, int)>("writev")(descriptor, parts, count));
}

ssize_t pwrite(int descriptor, const void* data, size_t size, off_t at) {
  return pwrite_as("pwrite", descriptor, data, size, at);
}

ssize_t pwrite64(int descriptor, const void* data, size_t size, off64_t at) {
  return pwrite_as("pwrite64", descriptor, data, size, at);
}

int ftruncate(int descriptor, off_t size) noexcept { return ftruncate_as("ftruncate", descriptor, size); }

int ftruncate64(int descriptor, off64_t size) noexcept { return ftruncate_as("ftruncate64", descriptor, size); }

int fsync(int descriptor) {
  if (inside(descriptor) && fails(true)) return -1;
  return next<int (*)(int)>("fsync")(descriptor);
}

int fdatasync(int descriptor) {
  if (inside(descriptor) && fails()) return -1;
  return next<int (*)(int)>("fdatasync")(descriptor);
}

int close(int descriptor) {
  const bool failed = writes(fcntl(descriptor, F_GETFL)) && inside(descriptor) && fails(true);
  const int result = next<int (*)(int)>("close")(descriptor);  // it is closed even if the last bytes found no room
  if (failed) errno = failure();
  return failed ? -1 : result;
}

int rename(const char* from, const char* to) noexcept {
  if (inside(to) && fails()) return -1;
  if (inside(to)) written().check(from);
  return next<int (*)(const char*, const char*)>("rename")(from, to);
}

int mkdir(const char* path, mode_t mode) noexcept {
  if (inside(path) && fails()) return -1;
  return next<int (*)(const char*, mode_t)>("mkdir")(path, mode);
}

int open(const char* path, int flags, ...) {
  DECKLE_MODE_OF(flags)
  return open_as("open", path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  DECKLE_MODE_OF(flags)
  return open_as("open64", path, flags, mode);
}

int openat(int folder, const char* path, int flags, ...) {
  DECKLE_MODE_OF(flags)
  return open_at_as("openat", folder, path, flags, mode);
}

int openat64(int folder, const char* path, int flags, ...) {
  DECKLE_MODE_OF(flags)
  return open_at_as("openat64", folder, path, flags, mode);
}

int creat(const char* path, mode_t mode) { return open_as("open", path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

std::FILE* fopen(const char* path, const char* mode) { return fopen_as("fopen", path, mode); }

std::FILE* fopen64(const char* path, const char* mode) { return fopen_as("fopen64", path, mode); }

/// For the process that it is linked into: how many calls there were since the last call of this, which counts anew.
long counted_writes() {
  written().forget();
  return calls.exchange(0);
}

}  // extern "C"
