#pragma once

#include <vector>

#include "deckle/core/dims.h"
#include "deckle/kernels/args/generated/arrange.h"

namespace deckle {

/// Which of `size` elements stands at each place of a padded dim; -1: the padding's value.
std::vector<int64_t> padded_places(int64_t size, int64_t before, int64_t after, PadMode mode);

/// Throws unless padding has two numbers for each of some of `rank` dims.
void require_padding(IntSpan padding, int64_t rank);

}  // namespace deckle
