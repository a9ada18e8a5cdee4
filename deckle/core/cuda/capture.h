#pragma once

#include <cstdint>
#include <memory>
#include <unordered_set>
#include <vector>

#include "deckle/base/device.h"
#include "deckle/base/philox.h"
#include "deckle/base/stream.h"
#include "deckle/core/cuda/graph.h"
#include "deckle/core/cuda/memory.h"

namespace deckle {
class Generator;
}

/// What the parts of this folder must know of a Graph (graph.h) that is being recorded.
namespace deckle::cuda {

/// Throws if this thread records a graph: `what` cannot be part of one.
void refuse_in_capture(const char* what);

/// Throws if this thread records a graph of another device: work for this one would run at once, and in no replay.
void refuse_other_device(Device device);

/// What a graph draws from a generator. One that an op was given must live as long as the graph; of a thread's default one, which
/// ends with its thread, replays draw from that of the thread that calls them.
struct RecordedDraws {
  Generator* generator;             // null once recorded: a thread's default one
  uint64_t first;                   // offset at which the recording began
  uint64_t blocks;                  // of four words that it took
  std::unique_ptr<Block> standing;  // seed and offset at a replay, for kernels; null on a fake device
};

/// What a recording must remember for its replays.
struct Recording {
  Device device;  // whose work it is
  std::vector<RecordedDraws> draws;
  /// The blocks that its kernels use and that are not its own scratch: its operands, and its results.
  std::unordered_set<const void*> blocks;
};

/// A kernel that this thread records uses a block.
void record_use(const void* memory, Device device);
/// A block of the graph's own was freed while this thread recorded, or one that it does not use.
void record_free(const void* memory);

/// Where the numbers lie that a generator gives next, for work on `device` that this thread records.
PhiloxStream recorded_draw(Generator& generator, Device device);

/// Whether this thread records a graph, which drew from the generator already.
bool draws_recorded(const Generator& generator);

/// Before a replay: tells the kernels where the generators stand, and lets these go on behind what the graph draws.
void draw_again(const std::vector<RecordedDraws>& draws, Device device);

/// For its lifetime, this thread's work on the device goes to a stream and is recorded. Then generators stand where they stood.
class Capturing {
 public:
  Capturing(Recording& recording, Stream stream);
  ~Capturing();
  Capturing(const Capturing&) = delete;
  Capturing& operator=(const Capturing&) = delete;

 private:
  Stream former_;
};

/// Blocks that are taken for this stream while it is recorded belong to its graph: when they are freed they serve nobody else.
/// Others that its kernels use (hold_block) serve nobody at all once they are freed, by whatever thread: each replay reads them.
/// Ends with the graph; those that tensors still have are ordinary ones from then on.
void keep_blocks(Device device, Stream stream);
void hold_block(const void* memory, Device device, Stream stream);
void release_blocks(Device device, Stream stream);

}  // namespace deckle::cuda
