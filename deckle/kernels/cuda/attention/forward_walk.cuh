// What a warpgroup of the forward walks: its key tiles, where a mask cuts them, and what changes their scores.
#pragma once

#include "deckle/kernels/cuda/attention/forward_scores.cuh"
#include "deckle/kernels/cuda/attention/forward_work.cuh"
#include "deckle/kernels/cuda/attention/softmax.cuh"

namespace deckle::kernels::cuda::attention {

/// A warpgroup's key tiles: [begin, end) are visited, those outside [inner_begin, inner_end) hold a mask edge.
struct TileRange {
  int begin, end, inner_begin, inner_end;
};

template <class Config>
__device__ __forceinline__ TileRange tile_range(const DeviceProblem& problem, const ForwardItem& item, int warpgroup) {
  const int first = item.first_row + 64 * warpgroup, last = min(first + 64, item.queries) - 1;
  if (arch::uniform(first > last)) return {arch::uniform(item.tile_begin), arch::uniform(item.tile_begin), 0, 0};
  const Interval top = key_interval(problem.mask, first, item.queries, item.keys);
  const Interval bottom = key_interval(problem.mask, last, item.queries, item.keys);
  TileRange range;
  range.begin = top.begin / Config::keys;
  range.end = bottom.end > top.begin ? (bottom.end + Config::keys - 1) / Config::keys : range.begin;
  range.inner_begin = (bottom.begin + Config::keys - 1) / Config::keys;
  range.inner_end = top.end > 0 ? top.end / Config::keys : 0;
  if (problem.scale_sign < 0) range.inner_end = range.inner_begin = 0;  // the masked path also turns the sign
  range.begin = max(range.begin, item.tile_begin);
  range.end = min(range.end, item.tile_end);
  return {arch::uniform(range.begin), arch::uniform(range.end), arch::uniform(range.inner_begin), arch::uniform(range.inner_end)};
}

template <class Config>
__device__ __forceinline__ void mask_tile(const DeviceProblem& problem, const ForwardItem& item, int warpgroup, int j,
                                          float (&scores)[Config::keys / 2], float masked = kMinusInfinity) {
  const int thread = threadIdx.x % 128;
  const int row = item.first_row + 64 * warpgroup + tile::accumulator_row(thread);
  const Interval rows[2] = {key_interval(problem.mask, row, item.queries, item.keys),
                            key_interval(problem.mask, row + 8, item.queries, item.keys)};
  if (problem.scale_sign < 0) {
#pragma unroll
    for (int i = 0; i < Config::keys / 2; ++i) scores[i] = -scores[i];
  }
  mask_scores<Config::keys>(scores, rows, j * Config::keys, thread, masked);
}

/// Of an instance that has none.
struct NoFeatures {
  static constexpr bool kMixesScores = false, kMayBeFar = false;
  struct Place {
    int tile;
  };
  __device__ __forceinline__ Place at(int place) const { return {place}; }
  __device__ __forceinline__ void fetch(int) {}
  __device__ __forceinline__ void prepare(const Place&) {}
  template <class Scores>
  __device__ __forceinline__ void mask(Scores&, const Place&) {}
  __device__ __forceinline__ void draw(int) {}
  template <class Scores>
  __device__ __forceinline__ void apply(Scores&, int) {}
  template <class Probabilities>
  __device__ __forceinline__ void drop(Probabilities&) {}
};

/// body(features of a config's walk): a loop for each set of features that is common by itself, and one for all others.
template <class Config, class Body>
__device__ __forceinline__ void with_features(const ForwardArguments& args, ForwardStorage<Config>& shared,
                                              const ForwardItem& item, int warpgroup, const Body& body) {
  if constexpr (!Config::scored) {
    body(NoFeatures{});
  } else if (args.scores.set == FeatureSet::bias) {
    body(ForwardScores<Config, FeatureSet::bias>(args, shared, item, warpgroup));
  } else if (args.scores.set == FeatureSet::dropout) {
    body(ForwardScores<Config, FeatureSet::dropout>(args, shared, item, warpgroup));
  } else if (args.scores.set == FeatureSet::cap) {
    body(ForwardScores<Config, FeatureSet::cap>(args, shared, item, warpgroup));
  } else if (args.scores.set == FeatureSet::slopes) {
    body(ForwardScores<Config, FeatureSet::slopes>(args, shared, item, warpgroup));
  } else {
    body(ForwardScores<Config, FeatureSet::any>(args, shared, item, warpgroup));
  }
}

}  // namespace deckle::kernels::cuda::attention
