#pragma once

#include <string>

namespace deckle::cli {

/// Measured throughput on all threads: GF/s, and GB/s copied (read and written). 0: no such unit.
struct MachineRates {
  double float32 = 0, pair_dot = 0, tiles = 0, copy = 0;
};

/// Takes about two seconds.
MachineRates measure_machine();

/// Reports the processor, its rates, the choice of the table of families, and where the measurement disagrees; of a choice that
/// is `forced`, by DECKLE_CPU, only what it is.
std::string describe_machine(const MachineRates& rates, bool forced);

}  // namespace deckle::cli
