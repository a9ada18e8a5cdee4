#include "deckle/core/cuda/capture.h"

#include <algorithm>
#include <utility>

#include "deckle/base/check.h"
#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/stream.h"
#include "deckle/core/cuda/uses.h"
#include "deckle/core/generator.h"

namespace deckle::cuda {
namespace {

thread_local Recording* current = nullptr;  // null: none

/// Memory that is none of the recording's: what it freed before serves kernels as scratch that run in each replay.
std::unique_ptr<Block> block_beside(int64_t bytes, Device device) {
  struct Paused {
    Recording* const recording = std::exchange(current, nullptr);
    ~Paused() { current = recording; }
  } const paused;
  const OnStream there(device, {});
  return std::make_unique<Block>(bytes, device);
}

}  // namespace

bool capturing() { return current != nullptr; }

void record_use(const void* memory, Device device) {
  if (current->blocks.insert(memory).second) hold_block(memory, device, stream(device));
}

void record_free(const void* memory) {
  if (capturing()) current->blocks.erase(memory);
}

void refuse_in_capture(const char* what) {
  if (!capturing()) [[likely]]
    return;
  fail("a graph is being recorded, which cannot have {} (expected it before, or after)", what);
}

void refuse_other_device(Device device) {
  if (capturing() && current->device != device)
    fail("a graph of {} is being recorded, which cannot have work for {} (expected it before, or after)",
         to_string(current->device), to_string(device));
}

PhiloxStream recorded_draw(Generator& generator, Device device) {
  if (device.is_cpu()) refuse_in_capture("random numbers on the host, which would be the same in every replay");
  refuse_other_device(device);
  std::vector<RecordedDraws>& all = current->draws;
  auto found = std::find_if(all.begin(), all.end(), [&](const auto& draws) { return draws.generator == &generator; });
  if (found == all.end()) {
    all.push_back({&generator, generator.offset(), 0, nullptr});
    found = std::prev(all.end());
  }
  if (found->standing == nullptr) found->standing = block_beside(2 * sizeof(uint64_t), device);
  if (fake()) return {generator.seed(), generator.offset()};  // whose replays run when they are called
  return {0, generator.offset() - found->first, found->standing->as<const uint64_t>()};
}

bool draws_recorded(const Generator& generator) {
  return capturing() && std::any_of(current->draws.begin(), current->draws.end(),
                                    [&](const RecordedDraws& draws) { return draws.generator == &generator; });
}

void draw_again(const std::vector<RecordedDraws>& draws, Device device) {
  for (const RecordedDraws& of : draws) {
    Generator& generator = of.generator != nullptr ? *of.generator : default_generator();
    const uint64_t now[] = {generator.seed(), generator.offset()};
    if (of.standing != nullptr) copy_bytes(of.standing->as<void>(), device, now, {}, sizeof(now));
    generator.restart(now[0], now[1] + of.blocks);
  }
}

Capturing::Capturing(Recording& recording, Stream stream) : former_(exchange_stream(recording.device, stream)) {
  current = &recording;
  note_recording(1);
}

Capturing::~Capturing() {
  note_recording(-1);
  for (RecordedDraws& draws : current->draws) {
    draws.blocks = draws.generator->offset() - draws.first;
    draws.generator->restart(draws.generator->seed(), draws.first);
    if (draws.generator == &default_generator()) draws.generator = nullptr;
  }
  exchange_stream(current->device, former_);
  current = nullptr;
}

}  // namespace deckle::cuda
