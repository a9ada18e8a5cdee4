#pragma once

#include <cstdint>
#include <vector>

#include "deckle/attention/mask.h"
#include "deckle/core/ragged_shape.h"

namespace deckle {

/// A mask as kernels take it: the and of a band, of ranges, and of a plane.
struct CompiledMask {
  Alignment alignment = Alignment::bottom_right;  // of the bands in the mask
  bool mixed_alignments = false;                  // the mask holds bands of both; `alignment` is that of the first
  bool causal = false;
  int64_t left = -1, right = -1;  // negative: no limit
  std::vector<int32_t> bounds;    // AttentionRanges; empty if every row sees every key that the band allows
  int range_count = 0;
  Tensor plane;  // bool [B, H, M, N], any of them 1; undefined if the rest is exact
};

/// Bands stay formulas where the kernels can hold them; all else becomes ranges, as many as the row with most needs. A boolean
/// mask with more than a few runs of keys in a row stays a plane with ranges around it, and so does whatever is so scattered that
/// its ranges would be larger than a plane. Throws if the mask does not fit the sequences. Documents may have ids of `all_rows`,
/// where some behind the keys are spare.
CompiledMask compile_mask(const AttentionMask& mask, const Ragged& q_rows, const Ragged& k_rows, int64_t heads,
                          const Ragged& all_rows = {});

/// Masks compiled by this process so far: how often plans could not be kept.
int64_t compiled_masks();

/// Throws unless `plane`, [B, H, M, N] with 1 where it is broadcast, covers every sequence.
void require_plane(const char* argument, const Tensor& plane, const Ragged& q_rows, const Ragged& k_rows, int64_t heads);

}  // namespace deckle
