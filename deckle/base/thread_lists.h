#pragma once

#include <mutex>

namespace deckle {

/// Of the lists of what threads keep, each of its own. A fork waits for it, so that the child finds it free: else a thread that
/// begins or ends during the fork would leave it locked there for ever.
std::mutex& thread_lists_mutex();

}  // namespace deckle
