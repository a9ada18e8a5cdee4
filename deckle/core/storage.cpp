#include "deckle/core/storage.h"

#include "deckle/base/check.h"
#include "deckle/core/allocator.h"

namespace deckle {

Storage::Storage(int64_t bytes, Device device) : data_(nullptr), bytes_(bytes), device_(device) {
  if (device.kind != DeviceKind::cpu)
    fail(ErrorKind::not_implemented, "this build has no memory on {} (expected cpu)", to_string(device));
  data_ = detail::allocate(bytes);
}

Storage::Storage(void* data, int64_t bytes, Device device, std::function<void()> release)
    : data_(data), bytes_(bytes), device_(device), release_(std::move(release)) {}

Storage::~Storage() {
  if (release_) {
    release_();
  } else {
    detail::deallocate(data_, bytes_);
  }
}

}  // namespace deckle
