#pragma once

#include "deckle/base/cpu_cap.h"
#include "deckle/kernels/cpu/simd/amx.h"

namespace deckle::testing {

/// Emulates AMX tiles in software for its lifetime.
struct ModelledTiles {
  ModelledTiles() { kernels::cpu::simd::model_tiles(true); }
  ~ModelledTiles() { kernels::cpu::simd::model_tiles(false); }
  ModelledTiles(const ModelledTiles&) = delete;
  ModelledTiles& operator=(const ModelledTiles&) = delete;
};

/// Whether this machine has the vector instructions that the tile kernels need.
inline bool has_vectors_of_tiles() { return cpu_isa() >= CpuIsa::avx512_bf16; }

}  // namespace deckle::testing
