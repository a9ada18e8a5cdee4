#include "deckle/core/cuda/graph.h"

#include <mutex>

#include "deckle/base/check.h"
#include "deckle/core/cuda/capture.h"
#include "deckle/core/cuda/counters.h"
#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/driver.h"
#include "deckle/core/cuda/error.h"
#include "deckle/core/cuda/stream.h"
#include "deckle/core/cuda/uses.h"

namespace deckle::cuda {
namespace {

/// A stream that nothing but the recording of one graph uses: it names the graph's memory.
struct Recorder {
  explicit Recorder(Device on) : device(on) {
    check_call(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
    keep_blocks(device, {stream});
  }
  ~Recorder() {
    if (in_child_of_fork()) return;
    release_blocks(device, {stream});
    cudaStreamDestroy(stream);
  }
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  Device device;
  cudaStream_t stream = nullptr;
};

}  // namespace

struct Graph::State {
  explicit State(Device device) : recorder(device) {}
  ~State() {
    try {
      const DeviceGuard guard(recorder.device);
      // Replays may still use its memory, which goes back in the order of the default stream. A wait for the device would be
      // refused while another thread records a graph.
      const Stream next = default_stream(recorder.device);
      if (replayed.handle != nullptr && replayed.handle != next.handle) follow(recorder.device, next, replayed);
      if (executable != nullptr) cudaGraphExecDestroy(executable);  // of one under way, when that has ended
    } catch (...) {  // the device is broken, which the next call says: there is nothing left to wait for
    }
  }

  Recorder recorder;
  Recording recording;
  std::mutex mutex;
  Stream replayed;  // of the last replay
  cudaGraphExec_t executable = nullptr;
  size_t size = 0;
};

Graph::Graph(Device device, const std::function<void()>& work) {
  refuse_in_capture("another graph");
  check(work != nullptr, "the function is empty (expected the work to record)");
  const DeviceGuard guard(device);
  state_ = std::make_unique<State>(device);
  state_->replayed = default_stream(device);
  const cudaStream_t stream = state_->recorder.stream;
  cudaGraph_t graph = nullptr;
  {
    state_->recording.device = device;
    const Capturing recording(state_->recording, {stream});
    check_call(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "the recording of a graph");
    try {
      work();
    } catch (...) {
      cudaStreamEndCapture(stream, &graph);
      if (graph != nullptr) cudaGraphDestroy(graph);
      cudaGetLastError();  // what was wrong is on its way
      throw;
    }
    check_call(cudaStreamEndCapture(stream, &graph), "the recording of a graph");
  }
  const cudaError_t counted = cudaGraphGetNodes(graph, nullptr, &state_->size);
  const cudaError_t made = cudaGraphInstantiate(&state_->executable, graph, 0);
  cudaGraphDestroy(graph);
  check_call(counted, "a graph");
  check_call(made, "a graph");
  // Its memory was taken in the order of the default stream, and replays may be given to any.
  count(Counted::wait, device);
  check_call(cudaStreamSynchronize(static_cast<cudaStream_t>(default_stream(device).handle)), "the memory of a graph");
}

Graph::~Graph() = default;
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;

void Graph::replay() const {
  check(state_ != nullptr, "the graph was moved away (expected one that holds a recording)");
  refuse_in_capture("a replay of another graph");
  const Device device = state_->recorder.device;
  const DeviceGuard guard(device);
  const std::lock_guard lock(state_->mutex);
  if (has_streams()) {
    // Scratch and random numbers are common to all replays; other blocks have an order of their own.
    const Stream now = stream(device);
    if (state_->replayed.handle != now.handle) follow(device, now, state_->replayed);
    state_->replayed = now;
    for (const void* const block : state_->recording.blocks) use(block, device);
  }
  draw_again(state_->recording.draws, device);
  check_call(cudaGraphLaunch(state_->executable, stream_handle(device)), "a graph");
}

int64_t Graph::size() const { return state_ == nullptr ? 0 : static_cast<int64_t>(state_->size); }

}  // namespace deckle::cuda
