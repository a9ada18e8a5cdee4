#pragma once

#include <cstdint>

// The softmax of amx_scores.h with a tangent, between the tile products of amx.h.

namespace deckle::kernels::cpu::simd {

/// tile_softmax with a tangent: tz = tangent_factor * tangent. `mean`, that of tz under the weights of all keys so far, moves by
/// `shift`. Besides p, which also replaces `scores`, p (tz - mean) for the new mean goes to `tangent_pairs`: 0 where p is 0. What
/// was added up before must be moved by `shift` and multiplied by `rescale`, which is always written.
void tile_tangent_softmax(float* scores, const float* tangents, int64_t keys, int64_t columns, float factor, float tangent_factor,
                          float* reference, float* sum, float* mean, uint32_t* pairs, uint32_t* tangent_pairs, float* rescale,
                          float* shift);

}  // namespace deckle::kernels::cpu::simd
