#include "deckle/core/cuda/device.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <vector>

#include "deckle/base/check.h"
#include "deckle/core/cuda/capture.h"
#include "deckle/core/cuda/counters.h"
#include "deckle/core/cuda/driver.h"
#include "deckle/core/cuda/error.h"
#include "deckle/core/cuda/limits.h"
#include "deckle/core/cuda/memory.h"
#include "deckle/core/cuda/messages.h"
#include "deckle/core/cuda/stream.h"
#include "deckle/core/cuda/uses.h"

namespace deckle::cuda {

static_assert(kOutOfMemory == cudaErrorMemoryAllocation && kOldDriver == cudaErrorInsufficientDriver &&
              kIllegalAddress == cudaErrorIllegalAddress);

namespace {

/// What a device has once for the process. Leaked on purpose: tensors in static storage may outlive any owner.
struct State {
  std::atomic<bool> made{false};
  cudaStream_t stream = nullptr;
  IndexFault* fault = nullptr;
  std::mutex mutex;
  std::vector<cudaStream_t> others;  // made by new_stream
};

State& state(Device device) {
  require(device);
  static auto* const states = new std::array<State, kMaxDevices>;
  State& found = (*states)[static_cast<size_t>(device.index)];
  // Every op asks: std::call_once would look up four words of the thread.
  if (found.made.load(std::memory_order_acquire)) [[likely]]
    return found;
  const DeviceGuard guard(device);
  const std::lock_guard lock(found.mutex);
  if (found.stream == nullptr) check_call(cudaStreamCreateWithFlags(&found.stream, cudaStreamNonBlocking), "a stream");
  if (found.fault == nullptr) {
    void* words = nullptr;
    check_call(cudaHostAlloc(&words, sizeof(IndexFault), cudaHostAllocPortable | cudaHostAllocMapped), "pinned memory");
    found.fault = new (words) IndexFault{};
  }
  found.made.store(true, std::memory_order_release);
  return found;
}

/// What cudaGetDeviceCount said: asked once, the answer of a process does not change.
struct Found {
  int count = 0;
  cudaError_t status = cudaSuccess;
};

const Found& found() {
  static const Found answer = [] {
    watch_forks();
    Found result;
    result.status = cudaGetDeviceCount(&result.count);
    if (result.status != cudaSuccess) {
      result.count = 0;
      cudaGetLastError();  // it is told here, by nobody else
    }
    result.count = result.count < kMaxDevices ? result.count : kMaxDevices;
    return result;
  }();
  return answer;
}

thread_local int guards = 0;  // of this thread, one within another

bool waits_for_every_kernel() {
  static const bool wanted = [] {
    const char* const value = std::getenv("DECKLE_CUDA_SYNC");
    return value != nullptr && std::string_view(value) == "1";
  }();
  return wanted;
}

}  // namespace

bool built() { return true; }
int device_count() { return found().count; }

void require(Device device) {
  refuse_in_child_of_fork(device);
  const Found& known = found();
  if (device.is_cuda() && device.index >= 0 && device.index < known.count) return;
  const cudaError_t status = known.count == 0 && known.status == cudaSuccess ? cudaErrorNoDevice : known.status;
  fail_device(device, known.count, {status, cudaGetErrorName(status), cudaGetErrorString(status)}, CUDART_VERSION);
}

DeviceGuard::DeviceGuard(Device device) {
  require(device);
  // Launches report through a word of the thread (check_launch). What others left there is no launch of an op that begins now;
  // an error that breaks the device comes back by itself.
  int& outer = guards;
  if (outer == 0 && cudaPeekAtLastError() != cudaSuccess) cudaGetLastError();
  if (found().count > 1) {  // one GPU is always the current one
    int current = -1;
    check_call(cudaGetDevice(&current), "the current device");
    if (current != device.index) {
      check_call(cudaSetDevice(device.index), "a change of device");
      former_ = current;
    }
  }
  ++outer;
}

DeviceGuard::~DeviceGuard() {
  --guards;
  if (former_ >= 0) cudaSetDevice(former_);
}

DeviceLimits device_limits(Device device) {
  if (!device.is_cuda()) return {};
  require(device);
  struct Asked {
    std::once_flag once;
    DeviceLimits limits;
  };
  static auto* const devices = new std::array<Asked, kMaxDevices>;
  Asked& asked = (*devices)[static_cast<size_t>(device.index)];
  std::call_once(asked.once, [&] {
    const auto ask = [&](int& to, cudaDeviceAttr attribute) {
      check_call(cudaDeviceGetAttribute(&to, attribute, device.index), "an attribute of the device");
    };
    ask(asked.limits.capability_major, cudaDevAttrComputeCapabilityMajor);
    ask(asked.limits.capability_minor, cudaDevAttrComputeCapabilityMinor);
    ask(asked.limits.block_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin);
  });
  return asked.limits;
}

bool fake() { return false; }
void* for_kernels(void* address) { return address; }

Stream default_stream(Device device) { return {state(device).stream}; }

bool has_stream(Device device, Stream stream) {
  State& of = state(device);
  const std::lock_guard lock(of.mutex);
  return stream.handle == of.stream || std::find(of.others.begin(), of.others.end(), stream.handle) != of.others.end();
}

cudaStream_t stream_handle(Device device) { return static_cast<cudaStream_t>(stream(device).handle); }

Stream new_stream(Device device) {
  const DeviceGuard guard(device);
  cudaStream_t made = nullptr;
  check_call(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "a stream");
  {
    State& of = state(device);
    const std::lock_guard lock(of.mutex);
    of.others.push_back(made);
  }
  note_stream();
  return {made};
}

void wait_for_streams(Device device) {
  const DeviceGuard guard(device);
  State& of = state(device);
  std::vector<cudaStream_t> streams;
  {
    const std::lock_guard lock(of.mutex);
    streams = of.others;
  }
  streams.push_back(of.stream);
  for (const cudaStream_t stream : streams) check_call(cudaStreamSynchronize(stream), "the work on a GPU");
}

void follow(Device device, Stream later, Stream earlier) {
  const DeviceGuard guard(device);
  cudaEvent_t place = nullptr;
  check_call(cudaEventCreateWithFlags(&place, cudaEventDisableTiming), "an event");
  cudaError_t status = cudaEventRecord(place, static_cast<cudaStream_t>(earlier.handle));
  if (status == cudaSuccess) status = cudaStreamWaitEvent(static_cast<cudaStream_t>(later.handle), place);
  cudaEventDestroy(place);  // the driver keeps it until it has passed
  check_call(status, "the order of two streams");
}

struct Event::State {
  Device device;
  cudaEvent_t event = nullptr;
  ~State() {
    if (event != nullptr && !in_child_of_fork()) cudaEventDestroy(event);
  }
};

Event::Event(Device device) : state_(std::make_unique<State>()) {
  const DeviceGuard guard(device);
  state_->device = device;
  check_call(cudaEventCreate(&state_->event), "an event");
}
Event::~Event() = default;
Event::Event(Event&&) noexcept = default;
Event& Event::operator=(Event&&) noexcept = default;

void Event::record() {
  const State& of = usable();
  const DeviceGuard guard(of.device);
  check_call(cudaEventRecord(of.event, stream_handle(of.device)), "an event");
}

void Event::wait(Device device) const {
  const State& of = usable();
  const DeviceGuard guard(device);
  check_call(cudaStreamWaitEvent(stream_handle(device), of.event), "an event");
}

void Event::synchronize() const {
  const State& of = usable();
  require(of.device);
  count(Counted::wait, of.device);
  check_call(cudaEventSynchronize(of.event), "the work on a GPU");
  check_index_fault(of.device);
}

bool Event::passed() const {
  const State& of = usable();
  require(of.device);
  const cudaError_t status = cudaEventQuery(of.event);
  if (status == cudaErrorNotReady) {
    cudaGetLastError();
    return false;
  }
  check_call(status, "the work on a GPU");
  return true;
}

double Event::milliseconds_since(const Event& earlier) const {
  float time = 0;
  check_call(cudaEventElapsedTime(&time, earlier.usable().event, usable().event), "the time between two events");
  return time;
}

IndexFault* index_fault(Device device) { return state(device).fault; }  // for host and device: unified addressing

void check_index_fault(Device device) {
  volatile IndexFault* const fault = index_fault(device);
  const std::lock_guard lock(state(device).mutex);  // of threads that wait one tells it
  if (fault->happened == 0) return;
  const int64_t index = fault->index, size = fault->size;
  const int32_t kind = fault->happened;
  fault->happened = no_fault;
  fault->taken = 0;  // the next report may come
  if (kind == matrix_singular)
    fail("matrix {} of an op before this on {} is singular: pivot {} is 0 (expected a matrix with an inverse)", index,
         to_string(device), size);
  if (kind == matrix_not_positive)
    fail("matrix {} of an op before this on {} is not positive definite: its leading minor {} is not (expected one that is)",
         index, to_string(device), size);
  if (kind == no_probability)
    fail("element {} of an op before this on {} is {} (expected a probability, 0 to 1)", index, to_string(device),
         std::bit_cast<double>(size));
  fail("an op before this on {} was given the index {} (expected 0 to {})", to_string(device), index, size - 1);
}

void synchronize(Device device) {
  count(Counted::wait, device);
  wait_for_streams(device);
  check_index_fault(device);
}

void check_call(cudaError_t status, const char* what) {
  if (status == cudaSuccess) [[likely]]
    return;
  cudaGetLastError();
  fail_call(what, {status, cudaGetErrorName(status), cudaGetErrorString(status)});
}

void check_runtime(const char* what) {
  check_call(cudaPeekAtLastError(), what);
  int index = -1;
  check_call(cudaGetDevice(&index), what);
  if (capturing()) return;  // nothing can be asked of what is recorded
  const cudaError_t status = cudaStreamQuery(stream_handle(Device::cuda(index)));
  if (status == cudaErrorNotReady)
    cudaGetLastError();
  else
    check_call(status, what);
}

void check_launch(Device device) {
  check_call(cudaPeekAtLastError(), "a kernel");
  if (waits_for_every_kernel() && !capturing()) cuda::synchronize(device);  // what is recorded does not run
}

}  // namespace deckle::cuda
