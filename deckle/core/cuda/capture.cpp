#include "deckle/core/cuda/capture.h"

#include <algorithm>

#include "deckle/base/check.h"
#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/stream.h"
#include "deckle/core/cuda/uses.h"
#include "deckle/core/generator.h"

namespace deckle::cuda {
namespace {

thread_local Recording* current = nullptr;  // null: none

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
  std::vector<RecordedDraws>& all = current->draws;
  auto found = std::find_if(all.begin(), all.end(), [&](const auto& draws) { return draws.generator == &generator; });
  if (found == all.end()) {
    all.push_back({&generator, generator.offset(), 0, nullptr});
    found = std::prev(all.end());
  }
  if (fake()) return {generator.seed(), generator.offset()};  // whose replays run when they are called
  if (found->standing == nullptr) found->standing = std::make_unique<Block>(2 * sizeof(uint64_t), device);
  return {0, generator.offset() - found->first, found->standing->as<const uint64_t>()};
}

void draw_again(const std::vector<RecordedDraws>& draws, Device device) {
  for (const RecordedDraws& of : draws) {
    Generator& generator = of.generator != nullptr ? *of.generator : default_generator();
    const uint64_t now[] = {generator.seed(), generator.offset()};
    if (of.standing != nullptr) copy_bytes(of.standing->as<void>(), device, now, {}, sizeof(now));
    generator.restart(now[0], now[1] + of.blocks);
  }
}

Capturing::Capturing(Recording& recording) {
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
  current = nullptr;
}

}  // namespace deckle::cuda
