#pragma once

namespace deckle {

/// Launches a kernel that does nothing on the default stream: what a launch costs the host at least.
void launch_empty_kernel();

}  // namespace deckle
