#pragma once

namespace deckle::cli {

/// From now on the first Ctrl-C (or SIGTERM) only sets a flag, and the second ends the process at once with code 130; what
/// is being written then is a temporary file. Files that grow past a limit become write errors instead of signals.
void install_interrupts();

/// Whether the flag is set.
bool interrupted();

}  // namespace deckle::cli
