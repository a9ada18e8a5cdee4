// A target for libFuzzer: FUZZ_TARGET names it.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  deckle::fuzz::FUZZ_TARGET({reinterpret_cast<const char*>(data), size});
  return 0;
}
