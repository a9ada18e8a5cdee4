#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "deckle/base/device.h"

namespace deckle {

/// Memory shared by a tensor and its views, with the counter of in-place writes that saved tensors check.
class Storage {
 public:
  /// Uninitialised memory from the allocator.
  Storage(int64_t bytes, Device device);

  /// Foreign memory; `release` runs when the last tensor on it is gone.
  Storage(void* data, int64_t bytes, Device device, std::function<void()> release);

  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  bool foreign() const { return release_ != nullptr; }
  uint64_t version() const { return version_.load(std::memory_order_relaxed); }
  void bump_version() { version_.fetch_add(1, std::memory_order_relaxed); }

 private:
  void* data_;
  int64_t bytes_;
  Device device_;
  std::atomic<uint64_t> version_{0};
  std::function<void()> release_;
};

}  // namespace deckle
