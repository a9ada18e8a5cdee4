#include "deckle/core/cuda/capture.h"

#include "deckle/base/check.h"

namespace deckle::cuda {
namespace {

thread_local bool recording = false;

}  // namespace

bool capturing() { return recording; }

void refuse_in_capture(const char* what) {
  if (!recording) [[likely]]
    return;
  fail("a graph is being recorded, which cannot have {} (expected it before, or after)", what);
}

Capturing::Capturing() { recording = true; }
Capturing::~Capturing() { recording = false; }

}  // namespace deckle::cuda
