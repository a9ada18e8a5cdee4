// The suites of the backward whose tests are in two files: with a bias (attention_backward_bias_test.cpp), and all else, where
// they are instantiated (attention_backward_test.cpp).
#pragma once

#include "tests/kernels/cuda/attention_test.h"

namespace deckle::testing {

/// What the portable kernels serve of scores with features.
class AttentionBackwardFeatures : public AttentionTest {};

/// What the Hopper kernels serve of it: dropout, soft cap, slopes and masks, or a bias.
class AttentionBackwardScored : public AttentionTest {};

class AttentionBackwardLarge : public AttentionTest {};

}  // namespace deckle::testing
