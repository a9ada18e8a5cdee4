#include "deckle/core/cuda/counters.h"

#include <array>
#include <atomic>

#include "deckle/core/cuda/capture.h"
#include "deckle/core/cuda/device.h"

namespace deckle::cuda {
namespace {

struct Counts {
  std::array<std::atomic<int64_t>, 4> of{};
};

Counts& counts(Device device) {
  static std::array<Counts, 64> devices;
  return devices[static_cast<size_t>(device.index) % devices.size()];
}

void add(Counted what, Device device, int64_t amount) {
  counts(device).of[static_cast<size_t>(what)].fetch_add(amount, std::memory_order_relaxed);
}

}  // namespace

Counters counters(Device device) {
  require(device);
  const auto get = [&](Counted what) { return counts(device).of[static_cast<size_t>(what)].load(std::memory_order_relaxed); };
  return {get(Counted::block), get(Counted::wait), get(Counted::upload), get(Counted::read)};
}

void count(Counted what, Device device, int64_t amount) {
  if (what == Counted::wait) refuse_in_capture("the host wait for the GPU");
  if (what == Counted::upload) refuse_in_capture("an upload, whose bytes would be gone at its replay");
  add(what, device, amount);
}

void count_wait_for_memory(Device device) { add(Counted::wait, device, 1); }

}  // namespace deckle::cuda
