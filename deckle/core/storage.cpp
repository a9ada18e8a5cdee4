#include "deckle/core/storage.h"

#include "deckle/core/allocator.h"
#include "deckle/core/cuda/memory.h"

namespace deckle {

Storage::Storage(int64_t bytes, Device device) : data_(nullptr), bytes_(bytes), device_(device) {
  data_ = device.is_cpu() ? detail::allocate(bytes) : cuda::allocate(bytes, device);
}

Storage::Storage(void* data, int64_t bytes, Device device, std::function<void()> release)
    : data_(data), bytes_(bytes), device_(device), release_(std::move(release)) {}

Storage::~Storage() {
  if (release_) {
    release_();
  } else if (device_.is_cuda()) {
    cuda::deallocate(data_, bytes_, device_);
  } else {
    detail::deallocate(data_, bytes_);
  }
}

}  // namespace deckle
