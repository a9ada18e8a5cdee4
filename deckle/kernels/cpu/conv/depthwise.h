#pragma once

#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cpu/conv/taps.h"

/// Convolution where every channel has a filter of its own.               weight: [C, 1, size], values, result: [rows, C]
namespace deckle::kernels::cpu::conv {

void depthwise(const Source& source, const Taps& taps, const View& weight, const View& bias, const View& result);
void depthwise_transpose(const View& gradient, const RaggedView& windows, const RaggedView& ragged, const Taps& taps,
                         const View& weight, const View& result);
void depthwise_weight(const Source& source, const Taps& taps, const View& gradient, const View& result);

}  // namespace deckle::kernels::cpu::conv
