#include "deckle/ops/windows.h"

#include <bit>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "deckle/base/check.h"
#include "deckle/core/kept.h"
#include "deckle/core/shown.h"

namespace deckle::shapes {
namespace {

/// Sequences of count(length), kept with `ragged`.
template <typename F>
Ragged with_lengths(const Ragged& ragged, std::string_view what, IntSpan numbers, F&& count) {
  check(ragged.defined() && ragged->ragged_dims() == 1, "the sequences have {} (expected one ragged dim)", Shown{ragged});
  return kept_shape(*ragged, what, numbers, [&] {
    std::vector<int64_t> lengths;
    for (const int64_t length : ragged->sizes()) lengths.push_back(count(length));
    return Ragged::from_lengths(lengths);
  });
}

}  // namespace

Ragged equal_sequences(IntSpan sizes) {
  const int64_t count = numel_of(sizes.first(sizes.size() - 2));
  return Ragged::from_lengths(std::vector<int64_t>(static_cast<size_t>(count), sizes[sizes.size() - 2]));
}

int64_t window_count(int64_t length, int64_t size, int64_t stride, int64_t dilation, bool within) {
  check(size >= 1 && stride >= 1 && dilation >= 1, "windows of size {}, stride {}, dilation {} (expected 1 or more each)", size,
        stride, dilation);
  check(size - 1 <= std::numeric_limits<int64_t>::max() / 4 / dilation,
        "windows of size {} and dilation {} are too long (expected fewer than 2^61 rows)", size, dilation);
  const int64_t starts = within ? length - (size - 1) * dilation : length;
  return starts <= 0 ? 0 : (starts - 1) / stride + 1;
}

Ragged count_windows(const Ragged& ragged, int64_t size, int64_t stride, int64_t dilation, bool within) {
  window_count(0, size, stride, dilation, within);  // of no sequences it is to be right, too
  return with_lengths(ragged, "windows", {size, stride, dilation, static_cast<int64_t>(within)},
                      [&](int64_t length) { return window_count(length, size, stride, dilation, within); });
}

int64_t window_lead(int64_t size, int64_t dilation, bool centred, bool causal) {
  const int64_t reach = (size - 1) * dilation;
  return centred ? reach / 2 : causal ? reach : 0;
}

int64_t scaled_length(int64_t length, double scale) {
  const double wanted = std::floor(static_cast<double>(length) * scale);
  check(scale > 0 && wanted < 0x1p53, Argument{"scale"},
        "is {} for a sequence of length {} (expected a positive number, and a length below 2^53)", scale, length);
  return static_cast<int64_t>(wanted);
}

Ragged scale_lengths(const Ragged& ragged, double scale) {
  return with_lengths(ragged, "scaled", {std::bit_cast<int64_t>(scale)},
                      [&](int64_t length) { return scaled_length(length, scale); });
}

}  // namespace deckle::shapes
