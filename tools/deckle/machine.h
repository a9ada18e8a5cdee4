#pragma once

#include <string>

namespace deckle::cli {

/// What a processor was measured to do, on all threads: GF/s, and GB/s copied (read and written). 0: it has no such unit.
struct MachineRates {
  double float32 = 0, pair_dot = 0, tiles = 0, copy = 0;
};

/// Takes about two seconds.
MachineRates measure_machine();

/// The processor, its rates, what the table of families makes of it, and where the measurement disagrees.
std::string describe_machine(const MachineRates& rates);

}  // namespace deckle::cli
