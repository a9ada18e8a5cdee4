// Bytes between host and devices. The caller's memory is pageable, which the driver copies from and to at a fraction of the rate
// of pinned memory: pieces go through pinned blocks, so that an upload returns as soon as the last piece lies in one.
#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <mutex>

#include "deckle/base/parallel.h"
#include "deckle/core/cuda/counters.h"
#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/error.h"
#include "deckle/core/cuda/memory.h"
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
  bool held = false;  // its bytes are still to be taken out
};

/// Pinned blocks of one size, made as they are needed up to a limit: then the oldest is waited for.
class Pieces {
 public:
  Pieces(int64_t bytes, size_t limit) : bytes_(bytes), limit_(limit) {}

  Piece& next(Device device) {
    for (Piece& piece : pieces_) {
      if (piece.held) continue;
      const cudaError_t status = cudaEventQuery(piece.event);
      if (status == cudaErrorNotReady) {
        cudaGetLastError();  // is no error
        continue;
      }
      check_call(status, "a copy");
      return on(piece, device);
    }
    if (pieces_.size() < limit_) {
      void* memory = nullptr;
      check_call(cudaHostAlloc(&memory, static_cast<size_t>(bytes_), cudaHostAllocPortable), "pinned memory");
      Piece& piece = pieces_.emplace_back();
      piece.memory = static_cast<char*>(memory);
      return on(piece, device);
    }
    while (pieces_[turn_ % pieces_.size()].held) ++turn_;  // fewer are held than there are
    Piece& piece = pieces_[turn_++ % pieces_.size()];
    count(Counted::wait, device);
    check_call(cudaEventSynchronize(piece.event), "a copy");
    return on(piece, device);
  }

 private:
  Piece& on(Piece& piece, Device device) {
    if (piece.event != nullptr && piece.device == device) return piece;
    if (piece.event != nullptr) cudaEventDestroy(piece.event);
    piece.event = nullptr;
    check_call(cudaEventCreateWithFlags(&piece.event, cudaEventDisableTiming), "an event");
    piece.device = device;
    return piece;
  }

  const int64_t bytes_;
  const size_t limit_;
  std::deque<Piece> pieces_;
  size_t turn_ = 0;
};

/// One set for the process: copies of several threads take turns. Leaked on purpose.
struct Staging {
  std::mutex mutex;
  Pieces small{kSmall, 64}, large{kPiece, 8};
  Piece& next(int64_t bytes, Device device) { return (bytes <= kSmall ? small : large).next(device); }
};

Staging& staging() {
  static auto* const instance = new Staging;
  return *instance;
}

/// By as many threads as it takes to keep up with the bus.
void copy_on_host(char* to, const char* from, size_t bytes) {
  constexpr int64_t kGrain = 512 << 10;
  parallel_for(static_cast<int64_t>(bytes), kGrain,
               [&](int64_t begin, int64_t end) { std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin)); });
}

void upload(char* to, Device device, const char* from, int64_t bytes, cudaStream_t stream) {
  count(Counted::upload, device);
  Staging& pieces = staging();
  const std::lock_guard lock(pieces.mutex);
  for (int64_t done = 0; done < bytes; done += kPiece) {
    const auto size = static_cast<size_t>(std::min(kPiece, bytes - done));
    const Piece& piece = pieces.next(bytes, device);
    copy_on_host(piece.memory, from + done, size);
    check_call(cudaMemcpyAsync(to + done, piece.memory, size, cudaMemcpyHostToDevice, stream), "a copy to a GPU");
    check_call(cudaEventRecord(piece.event, stream), "an event");
  }
}

void download(char* to, const char* from, Device device, int64_t bytes, cudaStream_t stream) {
  count(Counted::wait, device);
  // Two pieces on the way while the one before them is taken out.
  Staging& pieces = staging();
  const std::lock_guard lock(pieces.mutex);
  std::array<Piece*, 3> flights{};
  const int64_t count = (bytes + kPiece - 1) / kPiece;
  const auto size_of = [&](int64_t i) { return static_cast<size_t>(std::min(kPiece, bytes - i * kPiece)); };
  for (int64_t i = 0; i < count + 2; ++i) {
    if (i < count) {
      Piece& piece = pieces.next(bytes, device);
      piece.held = true;
      check_call(cudaMemcpyAsync(piece.memory, from + i * kPiece, size_of(i), cudaMemcpyDeviceToHost, stream),
                 "a copy from a GPU");
      check_call(cudaEventRecord(piece.event, stream), "an event");
      flights[static_cast<size_t>(i % 3)] = &piece;
    }
    if (i < 2 || i - 2 >= count) continue;
    Piece& piece = *flights[static_cast<size_t>((i - 2) % 3)];
    check_call(cudaEventSynchronize(piece.event), "the work on a GPU");
    copy_on_host(to + (i - 2) * kPiece, piece.memory, size_of(i - 2));
    piece.held = false;
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
