#include "deckle/core/cuda/capture.h"

#include <algorithm>

#include "deckle/base/check.h"
#include "deckle/core/cuda/device.h"
#include "deckle/core/generator.h"

namespace deckle::cuda {
namespace {

thread_local std::vector<RecordedDraws>* recording = nullptr;  // null: none

}  // namespace

bool capturing() { return recording != nullptr; }

void refuse_in_capture(const char* what) {
  if (!capturing()) [[likely]]
    return;
  fail("a graph is being recorded, which cannot have {} (expected it before, or after)", what);
}

PhiloxStream recorded_draw(Generator& generator, Device device) {
  if (device.is_cpu()) refuse_in_capture("random numbers on the host, which would be the same in every replay");
  auto found =
      std::find_if(recording->begin(), recording->end(), [&](const auto& draws) { return draws.generator == &generator; });
  if (found == recording->end()) {
    recording->push_back({&generator, generator.offset(), 0, nullptr});
    found = std::prev(recording->end());
  }
  if (fake()) return {generator.seed(), generator.offset()};  // whose replays run when they are called
  if (found->standing == nullptr) found->standing = std::make_unique<Block>(2 * sizeof(uint64_t), device);
  return {0, generator.offset() - found->first, found->standing->as<const uint64_t>()};
}

void draw_again(const std::vector<RecordedDraws>& draws, Device device) {
  for (const RecordedDraws& of : draws) {
    const uint64_t now[] = {of.generator->seed(), of.generator->offset()};
    if (of.standing != nullptr) copy_bytes(of.standing->as<void>(), device, now, {}, sizeof(now));
    of.generator->set_state(now[0], now[1] + of.blocks);
  }
}

Capturing::Capturing(std::vector<RecordedDraws>& draws) { recording = &draws; }

Capturing::~Capturing() {
  for (RecordedDraws& draws : *recording) {
    draws.blocks = draws.generator->offset() - draws.first;
    draws.generator->set_state(draws.generator->seed(), draws.first);
  }
  recording = nullptr;
}

}  // namespace deckle::cuda
