// The tile shape and schedule of each head dim, as measured on an H200 (benchmarks/results/).
#pragma once

#include "deckle/kernels/cuda/attention/forward.cuh"

namespace deckle::kernels::cuda::attention {

template <Element element, int D, int Dv>
struct ForwardChoice;

//                                                               D    Dv  warpgroups keys stages q buffers together
template <Element element>
struct ForwardChoice<element, 64, 64> : ForwardConfig<element, 64, 64, 4, 96, 4, 2, false> {};
template <Element element>
struct ForwardChoice<element, 96, 96> : ForwardConfig<element, 96, 96, 3, 112, 2, 2, true> {};
template <Element element>
struct ForwardChoice<element, 128, 128> : ForwardConfig<element, 128, 128, 3, 80, 2, 2, true> {};
template <Element element>
struct ForwardChoice<element, 192, 128> : ForwardConfig<element, 192, 128, 2, 96, 2, 2, true> {};
template <Element element>
struct ForwardChoice<element, 192, 192> : ForwardConfig<element, 192, 192, 2, 96, 2, 1, true> {};
template <Element element>
struct ForwardChoice<element, 256, 256> : ForwardConfig<element, 256, 256, 2, 64, 2, 1, true> {};

/// Up to about 2,000 keys: tiles of 128 x 128 waste least of common lengths, and two warpgroups have registers for q.
template <Element element, int D, int Dv>
struct ForwardMediumChoice;

template <Element element>
struct ForwardMediumChoice<element, 128, 128> : ForwardConfig<element, 128, 128, 2, 128, 2, 2, true, 1, true> {};

/// Short sequences (about 128 queries or fewer): blocks of one warpgroup, several per SM, hide the latency of many small items.
template <Element element, int D, int Dv>
struct ForwardShortChoice;

template <Element element>
struct ForwardShortChoice<element, 64, 64> : ForwardConfig<element, 64, 64, 1, 64, 2, 2, false, 4> {};
template <Element element>
struct ForwardShortChoice<element, 128, 128> : ForwardConfig<element, 128, 128, 1, 64, 2, 2, false, 2> {};

/// Soft cap, slopes, bias, table, dropout. At D = 128 they do not fit the registers of three warpgroups together; three that do
/// scores and values one after the other, with one q for the tiles of a bias, were slower in all but dropout and long rows.
template <Element element, int D, int Dv>
struct ForwardScoredChoice;

template <Element element>
struct ForwardScoredChoice<element, 64, 64> : ForwardConfig<element, 64, 64, 4, 96, 4, 2, false, 1, false, true> {};
template <Element element>
struct ForwardScoredChoice<element, 128, 128> : ForwardConfig<element, 128, 128, 2, 96, 2, 2, true, 1, false, true> {};

}  // namespace deckle::kernels::cuda::attention
