#include "deckle/nn/conv.h"

#include <cmath>

#include "deckle/base/check.h"

namespace deckle::nn {

Conv1d::Conv1d(IntArg in, IntArg out, IntArg size, const Conv1dOptions& options, Generator* generator)
    : bias(constant_parameter({out}, 0)), options_(options) {
  call_as("nn::Conv1d", [&] {
    check(options.groups > 0 && in % options.groups == 0 && out % options.groups == 0, Argument{"groups"},
          "is {} for {} channels in and {} out (expected a number that divides both)", options.groups, int64_t{in}, int64_t{out});
  });
  const int64_t seen = in / options.groups;  // channels of a window
  weight = normal_parameter({out, seen, size}, 1 / std::sqrt(static_cast<double>(seen * size)), generator);
}

}  // namespace deckle::nn
