#include "deckle/core/storage.h"

#include <cstring>

#include "deckle/base/check.h"
#include "deckle/base/parallel.h"
#include "deckle/core/allocator.h"

namespace deckle {

Storage::Storage(int64_t bytes, Device device) : data_(nullptr), bytes_(bytes), device_(device) {
  if (device.kind != DeviceKind::cpu) fail(ErrorKind::not_implemented, "this build has no memory on {}", to_string(device));
  data_ = detail::allocate(bytes);
}

Storage::Storage(void* data, int64_t bytes, Device device, std::function<void()> release)
    : data_(data), bytes_(bytes), device_(device), release_(std::move(release)) {}

Storage::Storage(RepeatedRows repeated, Device device)
    : data_(nullptr),
      bytes_(repeated.ragged->rows() * repeated.row_bytes),
      device_(device),
      deferred_(std::make_unique<Deferred>()) {
  deferred_->rows = std::move(repeated);
}

void Storage::write_out() const {
  const std::lock_guard lock(deferred_->mutex);
  if (!is_repeated()) return;
  constexpr int64_t kGrain = 65536;  // bytes per parallel range
  const auto& [rows, row_bytes, ragged] = deferred_->rows;
  const int64_t* const component = ragged->row_map().components().data();
  const auto* const from = static_cast<const char*>(rows->data());
  data_ = detail::allocate(bytes_);
  parallel_for(ragged->rows(), kGrain / row_bytes, [&, bytes = row_bytes](int64_t begin, int64_t end) {
    char* to = static_cast<char*>(data_) + begin * bytes;
    for (int64_t row = begin; row < end; ++row, to += bytes)
      std::memcpy(to, from + component[row] * bytes, static_cast<size_t>(bytes));
  });
  deferred_->written_out.store(true, std::memory_order_release);
}

Storage::~Storage() {
  if (release_) {
    release_();
  } else {
    detail::deallocate(data_, bytes_);
  }
}

}  // namespace deckle
