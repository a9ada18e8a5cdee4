#pragma once

#include "deckle/base/device.h"
#include "deckle/base/stream.h"

/// What the parts of this folder must know of a Graph (graph.h) that is being recorded.
namespace deckle::cuda {

/// Whether this thread records a graph.
bool capturing();

/// Throws if this thread records a graph: `what` cannot be part of one.
void refuse_in_capture(const char* what);

/// For its lifetime, this thread records what it gives to a stream.
class Capturing {
 public:
  Capturing();
  ~Capturing();
  Capturing(const Capturing&) = delete;
  Capturing& operator=(const Capturing&) = delete;
};

/// Blocks that are taken for this stream while it is recorded belong to its graph: when they are freed they serve nobody else.
/// Ends with the graph; those that tensors still have are ordinary ones from then on.
void keep_blocks(Device device, Stream stream);
void release_blocks(Device device, Stream stream);

}  // namespace deckle::cuda
