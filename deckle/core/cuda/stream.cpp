// Which stream a thread's work goes to, and the order of memory between streams; what a stream is, the driver knows (device.cpp)
// or the fake device.
#include "deckle/core/cuda/stream.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "deckle/base/check.h"
#include "deckle/core/cuda/capture.h"
#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/driver.h"
#include "deckle/core/cuda/uses.h"

namespace deckle::cuda {
namespace {

thread_local std::array<void*, kMaxDevices> current{};
std::atomic<bool> several{false};
std::atomic<int> watching{0};  // that there are several streams, and recordings under way: while 0, nobody asks for uses

/// The stream that took a block, and those that used it, the last one at the end.
struct Uses {
  void* taker;
  std::vector<void*> users;
};

struct Blocks {
  std::mutex mutex;
  std::unordered_map<const void*, Uses> used_by;
};

Blocks& blocks() {
  static auto* const instance = new Blocks;  // leaked, as the tensors in static storage are
  return *instance;
}

}  // namespace

Stream stream(Device device) {
  const Stream first = default_stream(device);  // throws unless there is such a device
  void* const chosen = current[static_cast<size_t>(device.index)];
  return chosen != nullptr ? Stream{chosen} : first;
}

Stream exchange_stream(Device device, Stream stream) {
  return {std::exchange(current[static_cast<size_t>(device.index)], stream.handle)};
}

OnStream::OnStream(Device device, Stream stream) : device_(device) {
  require(device);
  refuse_in_capture("another stream");
  check(stream.handle == nullptr || has_stream(device, stream), "the stream is none of {}'s (expected one of new_stream({}))",
        to_string(device), to_string(device));
  former_ = exchange_stream(device, stream);
}

OnStream::~OnStream() { exchange_stream(device_, former_); }

Event::State& Event::usable() const {
  check(state_ != nullptr, "the event was moved away (expected one that marks a place)");
  refuse_in_capture("an event");
  return *state_;
}

bool has_streams() { return several.load(std::memory_order_relaxed); }
void note_stream() {
  if (!several.exchange(true)) note_recording(1);
}
void note_recording(int change) { watching.fetch_add(change, std::memory_order_relaxed); }

void first_use(const void* memory, Device device) {
  if (!has_streams() || capturing()) return;
  const Stream now = stream(device);
  const std::lock_guard lock(blocks().mutex);
  blocks().used_by[memory] = {now.handle, {now.handle}};
}

void use(const void* memory, Device device) {
  if (watching.load(std::memory_order_relaxed) == 0 || memory == nullptr) [[likely]]
    return;
  if (capturing()) {
    refuse_other_device(device);
    return record_use(memory, device);
  }
  if (!has_streams()) return;
  const Stream now = stream(device);
  const std::lock_guard lock(blocks().mutex);
  // A block without an entry was made before there were streams.
  void* const first = default_stream(device).handle;
  std::vector<void*>& users = blocks().used_by.try_emplace(memory, Uses{first, {first}}).first->second.users;
  if (users.back() == now.handle) return;
  for (void* const user : users) {  // another thread's may have been given more since
    if (user != now.handle) follow(device, now, {user});
  }
  users.erase(std::remove(users.begin(), users.end(), now.handle), users.end());
  users.push_back(now.handle);
}

std::optional<Stream> back_to_taker(const void* memory, Device device) noexcept {
  if (!has_streams()) return default_stream(device);
  const std::lock_guard lock(blocks().mutex);
  const auto found = blocks().used_by.find(memory);
  if (found == blocks().used_by.end()) return default_stream(device);
  const Uses uses = std::move(found->second);
  blocks().used_by.erase(found);
  const Stream taker{uses.taker};
  try {
    for (void* const user : uses.users) {
      if (user != taker.handle) follow(device, taker, {user});  // what it was given until now
    }
  } catch (...) {
    return {};
  }
  return taker;
}

}  // namespace deckle::cuda
