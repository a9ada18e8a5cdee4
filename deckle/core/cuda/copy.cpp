// Bytes between host and devices. The caller's memory is pageable, which the driver copies from and to at a fraction of the rate
// of pinned memory: pieces go through pinned blocks, so that an upload returns as soon as the last piece lies in one.
#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <utility>

#include "deckle/base/parallel.h"
#include "deckle/core/cuda/counters.h"
#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/error.h"
#include "deckle/core/cuda/memory.h"
#include "deckle/core/cuda/pool.h"
#include "deckle/core/cuda/stream.h"

namespace deckle::cuda {
namespace {

constexpr int64_t kPiece = 4 << 20;
constexpr int64_t kSmall = 64 << 10;

/// A pinned block, free again when its event has passed.
struct Piece {
  char* memory = nullptr;
  cudaEvent_t event = nullptr;
  Device device;      // that the event belongs to
  bool held = false;  // by a thread, for its next copy
};

/// Pinned blocks of one size, made as they are needed up to a limit: then the oldest is waited for.
class Pieces {
 public:
  Pieces(int64_t bytes, size_t limit) : bytes_(bytes), limit_(limit) {}

  /// One that is held from now on; nullptr: all are, or, unless it `may_wait`, are in use. `lock` is open while it waits.
  Piece* take(std::unique_lock<std::mutex>& lock, Device device, bool may_wait) {
    Piece* found = passed();
    if (found == nullptr && pieces_.size() < limit_) {
      void* memory = nullptr;
      check_call(cudaHostAlloc(&memory, static_cast<size_t>(bytes_), cudaHostAllocPortable), "pinned memory");
      found = &pieces_.emplace_back();
      found->memory = static_cast<char*>(memory);
    }
    for (size_t tried = 0; may_wait && found == nullptr && tried < pieces_.size(); ++tried) {
      Piece& piece = pieces_[turn_++ % pieces_.size()];
      if (piece.held) continue;
      found = &piece;
      found->held = true;
      lock.unlock();
      count(Counted::wait, device);
      const cudaError_t status = cudaEventSynchronize(piece.event);
      lock.lock();
      found->held = false;
      check_call(status, "a copy");
    }
    if (found == nullptr) return nullptr;
    give_event(*found, device);
    found->held = true;
    return found;
  }

 private:
  /// One that no copy uses any more.
  Piece* passed() {
    for (Piece& piece : pieces_) {
      if (piece.held) continue;
      const cudaError_t status = piece.event == nullptr ? cudaSuccess : cudaEventQuery(piece.event);
      if (status == cudaErrorNotReady) {
        cudaGetLastError();  // is no error
        continue;
      }
      check_call(status, "a copy");
      return &piece;
    }
    return nullptr;
  }
  static void give_event(Piece& piece, Device device) {
    if (piece.event != nullptr && piece.device == device) return;
    if (piece.event != nullptr) cudaEventDestroy(piece.event);
    piece.event = nullptr;
    check_call(cudaEventCreateWithFlags(&piece.event, cudaEventDisableTiming), "an event");
    piece.device = device;
  }

  const int64_t bytes_;
  const size_t limit_;
  std::deque<Piece> pieces_;
  size_t turn_ = 0;
};

/// One set for the process. Leaked on purpose.
struct Staging {
  std::mutex mutex;
  std::condition_variable given_back;
  Pieces small{kSmall, 64}, large{kPiece, 8};

  Pieces& of(int64_t bytes) { return bytes <= kSmall ? small : large; }
};

Staging& staging() {
  static auto* const instance = new Staging;
  return *instance;
}

/// A piece while this thread has it. Nobody waits for another's who holds one: so none waits for ever.
class Held {
 public:
  Held() = default;
  /// Waits until there is one, or, unless it `must`, is empty if there is none.
  Held(int64_t bytes, Device device, bool must) {
    Staging& pieces = staging();
    std::unique_lock lock(pieces.mutex);
    try {
      while ((piece_ = pieces.of(bytes).take(lock, device, must)) == nullptr && must) pieces.given_back.wait(lock);
    } catch (...) {
      pieces.given_back.notify_all();  // the piece that was not to be had is the next one's to try
      throw;
    }
  }
  ~Held() { give_back(); }
  Held(Held&& other) noexcept : piece_(std::exchange(other.piece_, nullptr)) {}
  Held& operator=(Held&& other) noexcept {
    give_back();
    piece_ = std::exchange(other.piece_, nullptr);
    return *this;
  }

  explicit operator bool() const { return piece_ != nullptr; }
  char* memory() const { return piece_->memory; }
  cudaEvent_t event() const { return piece_->event; }
  void give_back() {
    if (piece_ == nullptr) return;
    Staging& pieces = staging();
    {
      const std::lock_guard lock(pieces.mutex);
      piece_->held = false;
    }
    piece_ = nullptr;
    pieces.given_back.notify_all();
  }

 private:
  Piece* piece_ = nullptr;
};

/// By as many threads as it takes to keep up with the bus.
void copy_on_host(char* to, const char* from, size_t bytes) {
  constexpr int64_t kGrain = 512 << 10;
  parallel_for(static_cast<int64_t>(bytes), kGrain,
               [&](int64_t begin, int64_t end) { std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin)); });
}

void upload(char* to, Device device, const char* from, int64_t bytes, cudaStream_t stream) {
  count(Counted::upload, device);
  for (int64_t done = 0; done < bytes; done += kPiece) {
    const auto size = static_cast<size_t>(std::min(kPiece, bytes - done));
    const Held piece(bytes, device, true);
    copy_on_host(piece.memory(), from + done, size);
    check_call(cudaMemcpyAsync(to + done, piece.memory(), size, cudaMemcpyHostToDevice, stream), "a copy to a GPU");
    check_call(cudaEventRecord(piece.event(), stream), "an event");
  }
}

void download(char* to, const char* from, Device device, int64_t bytes, cudaStream_t stream) {
  count(Counted::wait, device);
  count(Counted::read, device, bytes);
  // Two pieces on the way while the one before them is taken out.
  std::array<Held, 3> flights;
  const int64_t pieces = (bytes + kPiece - 1) / kPiece, most = std::ssize(flights);
  const auto size_of = [&](int64_t i) { return static_cast<size_t>(std::min(kPiece, bytes - i * kPiece)); };
  for (int64_t sent = 0, taken = 0; taken < pieces;) {
    if (sent < pieces && sent - taken < most) {
      if (Held piece(bytes, device, sent == taken); piece) {
        check_call(cudaMemcpyAsync(piece.memory(), from + sent * kPiece, size_of(sent), cudaMemcpyDeviceToHost, stream),
                   "a copy from a GPU");
        check_call(cudaEventRecord(piece.event(), stream), "an event");
        flights[static_cast<size_t>(sent++ % most)] = std::move(piece);
        continue;
      }
    }
    Held& first = flights[static_cast<size_t>(taken % most)];
    check_call(cudaEventSynchronize(first.event()), "the work on a GPU");
    copy_on_host(to + taken * kPiece, first.memory(), size_of(taken));
    first.give_back();
    ++taken;
  }
}

}  // namespace

void copy_bytes(void* to, Device to_device, const void* from, Device from_device, int64_t bytes) {
  if (bytes == 0) return;
  auto* const target = static_cast<char*>(to);
  const auto* const source = static_cast<const char*>(from);
  const Device device = to_device.is_cuda() ? to_device : from_device;
  const DeviceGuard guard(device);
  const cudaStream_t stream = stream_handle(device);
  if (to_device.is_cuda() && from_device.is_cuda()) {
    if (to_device == from_device) {
      check_call(cudaMemcpyAsync(target, source, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice, stream),
                 "a copy on a GPU");
      return;
    }
    // Each device has an order of its own: the copy comes after what made the source, and before the source changes.
    Event made(from_device);
    {
      const DeviceGuard there(from_device);
      made.record();
    }
    made.wait(to_device);
    pool::open_to_each_other(from_device, to_device);
    check_call(cudaMemcpyPeerAsync(target, to_device.index, source, from_device.index, static_cast<size_t>(bytes), stream),
               "a copy between GPUs");
    Event copied(to_device);
    copied.record();
    copied.wait(from_device);
  } else if (to_device.is_cuda()) {
    upload(target, device, source, bytes, stream);
  } else {
    download(target, source, device, bytes, stream);
    check_index_fault(device);
  }
}

void zero_bytes(void* memory, Device device, int64_t bytes) {
  if (bytes == 0) return;
  const DeviceGuard guard(device);
  check_call(cudaMemsetAsync(memory, 0, static_cast<size_t>(bytes), stream_handle(device)), "writing zeros on a GPU");
}

}  // namespace deckle::cuda
