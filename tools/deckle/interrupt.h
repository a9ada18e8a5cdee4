#pragma once

namespace deckle::cli {

/// Installs the signal handlers: the first Ctrl-C (or SIGTERM, or SIGHUP) only sets a flag, one that comes a tenth of a
/// second later or more ends the process at once with code 130; a file being written at that moment is a temporary one.
void install_interrupts();

/// Ignores SIGXFSZ and SIGPIPE: the write returns an error instead.
void ignore_write_signals();

/// Whether the flag is set.
bool interrupted();

}  // namespace deckle::cli
