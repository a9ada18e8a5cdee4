#include "deckle/autograd/call_check.h"

#include <algorithm>
#include <cstdlib>

#include "deckle/base/check.h"

namespace deckle::autograd {
namespace {

/// One call of so many is checked; 0: none is.
uint64_t period() {
  static const uint64_t value = [] {
    const char* const given = std::getenv("DECKLE_CHECK_CALLS");
    if (given != nullptr) return static_cast<uint64_t>(std::strtoull(given, nullptr, 10));
#ifdef NDEBUG
    return uint64_t{0};
#else
    return uint64_t{1};
#endif
  }();
  return value;
}

thread_local uint64_t calls = 0;

}  // namespace

bool checks_this_call() {
  const uint64_t every = period();
  return every != 0 && ++calls % every == 0;
}

void CallCheck::remember(const Tensor& input) {
  if (input.defined()) inputs_.push_back({input, input.storage(), input.version()});
}

void CallCheck::remember(TensorList inputs) {
  for (const Tensor& input : inputs) remember(input);
}

void CallCheck::check_unchanged() const {
  for (const Input& input : inputs_) {
    if (input.tensor.storage() != input.storage) {
      fail(ErrorKind::runtime, "an input of shape {} has other memory after the call (expected the same)", input.tensor.sizes());
    }
    if (input.tensor.version() != input.version) {
      fail(ErrorKind::runtime, "an input of shape {} was written by an op that writes none (expected its values unchanged)",
           input.tensor.sizes());
    }
  }
}

void CallCheck::lies_apart(const Tensor& result) const {
  if (!result.defined()) return;
  for (const Input& input : inputs_) {
    if (result.storage() == input.storage) {
      fail(ErrorKind::runtime, "a result of shape {} lies in the memory of an input and is no view (expected memory of its own)",
           result.sizes());
    }
  }
}

void CallCheck::lies_in_input(const Tensor& result) const {
  const bool found =
      std::any_of(inputs_.begin(), inputs_.end(), [&](const Input& input) { return result.storage() == input.storage; });
  if (!found)
    fail(ErrorKind::runtime, "a view of shape {} lies in memory of its own (expected that of an input)", result.sizes());
}

}  // namespace deckle::autograd
