// A C call that reports an exception as its message.
#pragma once

#include <exception>
#include <string>

namespace deckle::benchmarks {

/// Null, or the message; it is valid until the thread's next call.
template <class Call>
const char* guarded(Call call) {
  static thread_local std::string message;
  try {
    call();
    return nullptr;
  } catch (const std::exception& error) {
    message = error.what();
    return message.c_str();
  }
}

}  // namespace deckle::benchmarks
