#pragma once

#include <string>

#include "tests/ops/agreement.h"

namespace deckle::suite {

/// An op on a batch on a GPU, held to the same batch on the CPU. The host waits in those that are `host`, or named here.
void check_batch_on_device(const std::string& name, const Agreement& on, const VectorFunction& batch, bool host = false);

}  // namespace deckle::suite
