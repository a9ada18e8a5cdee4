#pragma once

namespace deckle::cli {

/// From now on the first Ctrl-C (or SIGTERM, or a terminal that closes) only sets a flag, and the second ends the process at
/// once with code 130; what is being written then is a temporary file.
void install_interrupts();

/// Files that grow past a limit and pipes without a reader become errors of the write instead of signals that kill.
void ignore_write_signals();

/// Whether the flag is set.
bool interrupted();

}  // namespace deckle::cli
