#include "deckle/base/thread_lists.h"

#include <pthread.h>

namespace deckle {
namespace {

constinit std::mutex mutex;

[[maybe_unused]] const int registered = pthread_atfork([] { mutex.lock(); }, [] { mutex.unlock(); }, [] { mutex.unlock(); });

}  // namespace

std::mutex& thread_lists_mutex() { return mutex; }

}  // namespace deckle
