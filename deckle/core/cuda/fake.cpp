// GPUs of a build without CUDA: there are none, or, with DECKLE_FAKE_DEVICES=N, N fake ones for tests. A fake device's memory is
// reserved at addresses that may not be touched; what is written there lies at a constant distance, where kernels (the CPU's) are
// sent to by dispatch::view, and copies know to find it. So a read or write by code for the host is a fault at once, on a machine
// without a GPU. Freed and fresh blocks are filled with NaN. Everything runs when it is called: it finds no missing
// synchronisation.
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "deckle/base/check.h"
#include "deckle/core/cuda/capture.h"
#include "deckle/core/cuda/counters.h"
#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/driver.h"
#include "deckle/core/cuda/graph.h"
#include "deckle/core/cuda/limits.h"
#include "deckle/core/cuda/memory.h"
#include "deckle/core/cuda/messages.h"
#include "deckle/core/cuda/pool.h"
#include "deckle/core/cuda/stream.h"
#include "deckle/core/cuda/uses.h"

namespace deckle::cuda {
namespace {

constexpr int64_t kReserved = int64_t{1} << 36;  // bytes of addresses of each device
constexpr int kPoison = 0xff;                    // NaN in every floating dtype, -1 in integers

int64_t number_of(const char* variable, int64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoll(text);
}

/// The addresses of one device, those of its memory behind them, and what of these is free.
struct alignas(4096) FakeDevice {  // whose addresses are its streams' (new_stream)
  std::mutex mutex;
  char* addresses = nullptr;
  int64_t taken_up = 0;  // of the reserved bytes
  int64_t in_use = 0;
  const int64_t capacity = number_of("DECKLE_FAKE_MEMORY", int64_t{2} << 30);
  std::map<std::pair<void*, int64_t>, std::vector<void*>> free;  // by stream, until a trim, and size
  std::map<void*, int64_t> used;                                 // and their sizes
  std::atomic<intptr_t> streams{0};

  void reserve() {
    if (addresses != nullptr) return;
    void* const found = mmap(nullptr, 2 * kReserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    check(found != MAP_FAILED && mprotect(static_cast<char*>(found) + kReserved, kReserved, PROT_READ | PROT_WRITE) == 0,
          "no addresses for a fake device (expected fewer of them: DECKLE_FAKE_DEVICES)");
    addresses = static_cast<char*>(found);
  }
};

FakeDevice& fake_device(Device device) {
  static auto* const devices = new std::array<FakeDevice, kMaxDevices>;
  return (*devices)[static_cast<size_t>(device.index)];
}

void* behind(void* address) { return address == nullptr ? nullptr : static_cast<char*>(address) + kReserved; }
const void* behind(const void* address) { return address == nullptr ? nullptr : static_cast<const char*>(address) + kReserved; }

thread_local Device guarded;

}  // namespace

bool built() { return false; }
DeviceLimits device_limits(Device) { return {}; }

int device_count() {
  static const auto count = [] {
    watch_forks();
    return static_cast<int>(std::clamp<int64_t>(number_of("DECKLE_FAKE_DEVICES", 0), 0, kMaxDevices));
  }();
  return count;
}

bool fake() { return device_count() > 0; }

void require(Device device) {
  refuse_in_child_of_fork(device);
  const int count = device_count();
  if (device.is_cuda() && device.index >= 0 && device.index < count) [[likely]]
    return;
  if (count == 0)
    fail(ErrorKind::not_implemented,
         "{} asked of a build without CUDA (expected one configured with a CUDA toolkit: DECKLE_CUDA=ON)", to_string(device));
  fail_device(device, count, {}, 0);
}

void* for_kernels(void* address) { return behind(address); }

void synchronize(Device device) {
  require(device);
  count(Counted::wait, device);
}

DeviceGuard::DeviceGuard(Device device) {
  require(device);
  former_ = guarded.index;
  guarded = device;
}
DeviceGuard::~DeviceGuard() { guarded.index = static_cast<int16_t>(former_); }

// Streams are numbers: everything is done when it is given.
Stream default_stream(Device device) {
  require(device);
  return {&fake_device(device)};
}

Stream new_stream(Device device) {
  require(device);
  note_stream();
  return {reinterpret_cast<char*>(&fake_device(device)) + ++fake_device(device).streams};
}

bool has_stream(Device device, Stream stream) {
  const intptr_t number = reinterpret_cast<intptr_t>(stream.handle) - reinterpret_cast<intptr_t>(&fake_device(device));
  return number >= 0 && number <= fake_device(device).streams;
}

void follow(Device, Stream, Stream) {}
void wait_for_streams(Device) {}

struct Event::State {
  Device device;
};
Event::Event(Device device) : state_(std::make_unique<State>()) {
  require(device);
  state_->device = device;
}
Event::~Event() = default;
Event::Event(Event&&) noexcept = default;
Event& Event::operator=(Event&&) noexcept = default;
void Event::record() { usable(); }
void Event::wait(Device device) const {
  usable();
  require(device);
}
void Event::synchronize() const { count(Counted::wait, usable().device); }
bool Event::passed() const {
  usable();
  return true;
}
double Event::milliseconds_since(const Event& earlier) const {
  usable(), earlier.usable();
  return 0;
}

/// What the blocks in use hold, which putting it back leaves as it was; blocks that are in use by then for the first time are
/// filled as fresh ones are.
class Held {
 public:
  explicit Held(FakeDevice& device) : device_(device) {
    const std::lock_guard lock(device.mutex);
    for (const auto& [address, bytes] : device.used) {
      const char* const memory = static_cast<const char*>(behind(address));
      blocks_.emplace(address, std::vector<char>(memory, memory + bytes));
    }
  }
  void put_back() const {
    const std::lock_guard lock(device_.mutex);
    for (const auto& [address, bytes] : device_.used) {
      if (!blocks_.contains(address)) pool::poison(address, bytes);
    }
    for (const auto& [address, held] : blocks_) std::copy(held.begin(), held.end(), static_cast<char*>(behind(address)));
  }

 private:
  FakeDevice& device_;
  std::map<void*, std::vector<char>> blocks_;
};

// A replay calls the work again, with what is refused in a graph refused. So does the recording, and then puts back what the
// device's memory held.
struct Graph::State {
  State(Device on, std::function<void()> what) : device(on), stream{this}, work(std::move(what)) { keep_blocks(device, stream); }
  ~State() {
    if (!in_child_of_fork()) release_blocks(device, stream);
  }

  std::vector<RecordedDraws> run() const {
    Recording recording;
    recording.device = device;
    {
      const Capturing now(recording, stream);
      work();
    }
    return std::move(recording.draws);
  }

  Device device;
  Stream stream;
  std::function<void()> work;
  std::mutex mutex;
};

Graph::Graph(Device device, const std::function<void()>& work) {
  refuse_in_capture("another graph");
  check(work != nullptr, "the function is empty (expected the work to record)");
  require(device);
  state_ = std::make_unique<State>(device, work);
  const Held held(fake_device(device));
  try {
    state_->run();
  } catch (...) {
    held.put_back();
    throw;
  }
  held.put_back();
}
Graph::~Graph() = default;
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;
void Graph::replay() const {
  check(state_ != nullptr, "the graph was moved away (expected one that holds a recording)");
  refuse_in_capture("a replay of another graph");
  const std::lock_guard lock(state_->mutex);
  draw_again(state_->run(), state_->device);
}
int64_t Graph::size() const { return 0; }

void copy_bytes(void* to, Device to_device, const void* from, Device from_device, int64_t bytes) {
  for (const Device device : {to_device, from_device}) {
    if (device.is_cuda()) require(device);
  }
  if (bytes == 0) return;
  if (to_device.is_cuda() && from_device.is_cpu()) count(Counted::upload, to_device);
  if (to_device.is_cpu() && from_device.is_cuda()) {
    count(Counted::wait, from_device);
    count(Counted::read, from_device, bytes);
  }
  std::memcpy(to_device.is_cuda() ? behind(to) : to, from_device.is_cuda() ? behind(from) : from, static_cast<size_t>(bytes));
}

void zero_bytes(void* memory, Device device, int64_t bytes) {
  require(device);
  if (bytes > 0) std::memset(behind(memory), 0, static_cast<size_t>(bytes));
}

namespace pool {

// As strict as a driver may be: what was given back serves the same stream and size, and others when the host has waited for it.
void* take(int64_t bytes, Device device, Stream stream) {
  FakeDevice& fake = fake_device(device);
  const std::lock_guard lock(fake.mutex);
  fake.reserve();
  std::vector<void*>* again = &fake.free[{stream.handle, bytes}];
  if (again->empty()) {
    again = &fake.free[{nullptr, bytes}];
    if (fake.in_use + bytes > fake.capacity || (again->empty() && fake.taken_up + bytes > kReserved)) return nullptr;
    if (again->empty()) again->push_back(fake.addresses + std::exchange(fake.taken_up, fake.taken_up + bytes));
    fake.in_use += bytes;
  }
  void* const block = again->back();
  again->pop_back();
  fake.used[block] = bytes;
  poison(block, bytes);
  return block;
}

void give(void* memory, int64_t bytes, Device device, Stream stream) noexcept {
  FakeDevice& fake = fake_device(device);
  const std::lock_guard lock(fake.mutex);
  fake.used.erase(memory);
  fake.free[{stream.handle, bytes}].push_back(memory);
}

void trim(Device device) {
  FakeDevice& fake = fake_device(device);
  const std::lock_guard lock(fake.mutex);
  for (auto& [from, blocks] : fake.free) {
    if (from.first == nullptr) continue;
    std::vector<void*>& common = fake.free[{nullptr, from.second}];
    common.insert(common.end(), blocks.begin(), blocks.end());
    fake.in_use -= from.second * std::ssize(blocks);
    blocks.clear();
  }
}

Room room(Device device) {
  FakeDevice& fake = fake_device(device);
  const std::lock_guard lock(fake.mutex);
  return {fake.capacity - fake.in_use, fake.capacity};
}

void poison(void* memory, int64_t bytes) noexcept {
  if (memory != nullptr) std::memset(behind(memory), kPoison, static_cast<size_t>(bytes));
}

}  // namespace pool
}  // namespace deckle::cuda
