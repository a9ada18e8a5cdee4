// Loaded before the C library (LD_PRELOAD): fails one call that writes to files of a folder, as a full disk does.
//   FAIL_IN=folder   only files below it       FAIL_AT=n   the n-th such call, counted from 1, and all later ones
//   FAIL_COUNT=file  writes there how many calls there were
// Calls: open for writing, write, fsync, rename.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

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

bool fails() {
  const char* at = std::getenv("FAIL_AT");
  const long call = ++calls;
  if (at == nullptr || call < std::atol(at)) return false;
  errno = ENOSPC;
  return true;
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

}  // namespace

extern "C" {

ssize_t write(int descriptor, const void* data, size_t size) {
  if (inside(descriptor) && fails()) return -1;
  return next<ssize_t (*)(int, const void*, size_t)>("write")(descriptor, data, size);
}

int fsync(int descriptor) {
  if (inside(descriptor) && fails()) return -1;
  return next<int (*)(int)>("fsync")(descriptor);
}

int rename(const char* from, const char* to) noexcept {
  if (inside(to) && fails()) return -1;
  return next<int (*)(const char*, const char*)>("rename")(from, to);
}

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  if ((flags & (O_WRONLY | O_RDWR)) != 0 && inside(path) && fails()) return -1;
  return next<int (*)(const char*, int, ...)>("open")(path, flags, mode);
}

}  // extern "C"
