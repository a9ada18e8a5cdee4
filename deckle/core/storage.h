#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "deckle/core/device.h"
#include "deckle/core/ragged_shape.h"

namespace deckle {

class Storage;

/// Rows of a small memory, each as often as its component has rows: what a Storage may stand for without being written out.
struct RepeatedRows {
  std::shared_ptr<const Storage> rows;  // [components, row_bytes]; nobody writes to it
  int64_t row_bytes = 0;
  Ragged ragged;
};

/// Memory shared by a tensor and its views, with the counter of in-place writes that saved tensors check.
class Storage {
 public:
  /// Uninitialised memory from the allocator.
  Storage(int64_t bytes, Device device);

  /// Foreign memory; `release` runs when the last tensor on it is gone.
  Storage(void* data, int64_t bytes, Device device, std::function<void()> release);

  /// Rows that repeat, written out into memory when that is first asked for.
  Storage(RepeatedRows repeated, Device device);

  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data() const {
    if (is_repeated()) write_out();
    return data_;
  }
  /// What this stands for as long as it is not written out; nullptr for all other memory.
  const RepeatedRows* repeated() const { return is_repeated() ? &deferred_->rows : nullptr; }
  int64_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  uint64_t version() const { return version_.load(std::memory_order_relaxed); }
  void bump_version() { version_.fetch_add(1, std::memory_order_relaxed); }

 private:
  struct Deferred {
    RepeatedRows rows;
    std::mutex mutex;
    std::atomic<bool> written_out{false};
  };

  bool is_repeated() const { return deferred_ && !deferred_->written_out.load(std::memory_order_acquire); }
  void write_out() const;

  mutable void* data_;
  int64_t bytes_;
  Device device_;
  std::atomic<uint64_t> version_{0};
  std::function<void()> release_;
  std::unique_ptr<Deferred> deferred_;
};

}  // namespace deckle
