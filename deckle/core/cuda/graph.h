#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "deckle/base/device.h"

namespace deckle::cuda {

/// Whether this thread records a graph: its work for the GPU runs in replays, with the numbers that the host had.
bool capturing();

/// A function's work for a GPU, recorded once and given to it again in one call, which costs the host some microseconds whatever
/// it holds: a whole training step, say.
///
///     for (int i = 0; i < 2; ++i) step();       // so that tables, algorithms and states exist
///     cuda::Graph graph(gpu, step);             // `step` is called, and nothing runs
///     graph.replay();                           // everything runs, on what its operands hold now
///
/// Operands are read where they were: the memory of those that are freed serves nobody else while the graph lives. Results are
/// written where they were, in memory that the graph keeps. So a batch is copied into tensors that stay, and its shapes stay:
/// batches of changing lengths have a RaggedCapacity. Random numbers go on with each replay, as if its thread had called `work`:
/// generators that ops are given live as long, too. What the host would have to wait for, uploads, events, other streams, devices
/// and graphs, and random numbers on the host are refused while it is recorded. Other threads may go on with work of their own,
/// wait for the device and end other graphs meanwhile; a cudaDeviceSynchronize of a program's own fails then, in every thread, as
/// CUDA has it. A fake device calls `work` again in place of a replay.
class Graph {
 public:
  Graph(Device device, const std::function<void()>& work);
  ~Graph();
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;

  /// In this thread's stream of the device, after what that holds, and after what other streams did with its operands and
  /// results; what reads or writes these next comes after it. Threads that replay one graph take turns.
  void replay() const;
  /// Kernels and copies in it.
  int64_t size() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace deckle::cuda
