#include "deckle/attention/padded.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "deckle/attention/cuda_candidates.h"
#include "deckle/attention/plan.h"
#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/limits.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/kernels/args/attention_cuda.h"
#include "deckle/nested/capacity.h"
#include "deckle/ops/generated/arrange.h"
#include "deckle/ops/generated/shape.h"

namespace deckle {
namespace {

using HeadDims = std::pair<int64_t, int64_t>;

/// Rounded up to whole loads of 16 bytes.
int64_t whole_loads(int64_t columns) { return (columns + 7) / 8 * 8; }

/// Fake devices stand for Hopper GPUs.
bool is_hopper(Device device) { return cuda::fake() || cuda::device_limits(device).capability_major == 9; }

bool serve(const HeadDims& compiled, const HeadDims& dims) {
  return kernels::compiled_dims_serve(compiled.first, compiled.second, dims.first, dims.second);
}

/// The head dims to which these are padded for the next larger pair that Hopper's kernels are compiled for: enough to fill as
/// many panels of 64 columns. The portable kernels would take them as they are, but compute both at the wider of the two.
HeadDims with_panels(const HeadDims& dims) {
  const auto pairs = hopper_head_dims();
  for (const HeadDims& pair : pairs) {
    if (serve(pair, dims)) return dims;
  }
  const auto least = [](int64_t dim, int64_t compiled) { return std::max(dim, (compiled + 63) / 64 * 64 - 56); };
  for (const HeadDims& pair : pairs) {
    if (pair.first >= dims.first && pair.second >= dims.second)
      return {least(dims.first, pair.first), least(dims.second, pair.second)};
  }
  return dims;
}

/// Whether a dense bias is copied, because Hopper's kernels, which serve one at these head dims, cannot read its rows 16 bytes at
/// a time. Not an expanded one, whose copy would be larger; and not one of fewer columns than `keys`, which is an error that
/// padding with zeros would hide.
bool pads_bias(const Tensor& q, int64_t keys, const HeadDims& dims, const Tensor& bias) {
  if (!bias.defined() || bias.dim() != 4 || bias.size(3) <= 1 || bias.numel() == 0 || bias.dtype() != q.dtype()) return false;
  if (bias.size(3) < keys) return false;
  if (!is_hopper(q.device()) || !(serve({64, 64}, dims) || serve({128, 128}, dims))) return false;
  for (int dim = 0; dim < 4; ++dim) {
    if (bias.size(dim) > 1 && bias.stride(dim) == 0) return false;
  }
  return !bias_is_in_pieces(bias);
}

}  // namespace

PaddedOperands padded_operands(const Tensor& q, const Tensor& k, const Tensor& v, const Ragged& k_rows,
                               const AttentionOptions& options) {
  PaddedOperands result{q, k, v, options, {}};
  constexpr int64_t kWidest = 256, kFewRows = 8;
  const HeadDims given{q.size(2), v.size(2)};
  HeadDims dims{whole_loads(given.first), whole_loads(given.second)};
  if (!q.device().is_cuda() || item_size(q.dtype()) != 2 || k.size(2) != given.first || std::min(given.first, given.second) < 1 ||
      std::max(dims.first, dims.second) > kWidest)
    return result;
  // Few rows on many keys are another kernel's, which no copy of all keys should hold up.
  if (is_hopper(q.device()) && q.size(0) >= k.size(0) / kFewRows) dims = with_panels(dims);
  const auto& lengths = options.key_lengths;
  const int64_t keys = lengths.empty() ? longest(k_rows) : *std::max_element(lengths.begin(), lengths.end());
  if (Tensor& bias = result.options.bias; pads_bias(q, keys, dims, bias)) {
    const int64_t columns = bias.size(3), wide = whole_loads(columns);
    bias = wide > columns ? pad(bias, {0, wide - columns}) : contiguous(bias.clone());
    result.explanation += fmt::format("  the bias of {} columns is copied to {}\n", columns, wide);
  }
  if (dims == given) return result;
  if (!options.scale) result.options.scale = 1.0 / std::sqrt(static_cast<double>(given.first));
  const auto widen = [](Tensor& x, int64_t columns) {
    if (columns > x.size(2)) x = pad(x, {0, columns - x.size(2)});
  };
  widen(result.q, dims.first), widen(result.k, dims.first), widen(result.v, dims.second);
  result.explanation +=
      fmt::format("  head dims {}/{} are copied to {}/{}\n", given.first, given.second, dims.first, dims.second);
  return result;
}

}  // namespace deckle
