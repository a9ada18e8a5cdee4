#include "deckle/ops/windows.h"

#include <cmath>
#include <limits>
#include <vector>

#include "deckle/base/check.h"

namespace deckle {
namespace {

/// Rows that a window reaches beyond its first.
int64_t reach(const Windows& windows) { return (windows.size - 1) * windows.dilation; }

int64_t count_of(const Windows& windows, int64_t length) {
  const int64_t starts = windows.padding == Padding::valid ? length - reach(windows) : length;
  return starts <= 0 ? 0 : (starts - 1) / windows.stride + 1;
}

}  // namespace

Ragged windowed(const Ragged& ragged, const Windows& windows) {
  check(ragged.defined() && ragged->ragged_dims() == 1, "the sequences have {} (expected one ragged dim)", to_string(ragged));
  check(windows.size >= 1 && windows.stride >= 1 && windows.dilation >= 1,
        "windows of size {}, stride {}, dilation {} (expected 1 or more each)", windows.size, windows.stride, windows.dilation);
  check(windows.size - 1 <= std::numeric_limits<int64_t>::max() / 4 / windows.dilation,
        "windows of size {} and dilation {} are too long (expected fewer than 2^61 rows)", windows.size, windows.dilation);
  std::vector<int64_t> counts;
  for (const int64_t length : ragged->sizes()) counts.push_back(count_of(windows, length));
  return Ragged::from_lengths(counts);
}

Ragged scaled(const Ragged& ragged, double scale) {
  check(ragged.defined() && ragged->ragged_dims() == 1, "the sequences have {} (expected one ragged dim)", to_string(ragged));
  std::vector<int64_t> lengths;
  for (const int64_t length : ragged->sizes()) {
    const double wanted = std::floor(static_cast<double>(length) * scale);
    check(scale > 0 && wanted < 0x1p53, Argument{"scale"},
          "is {} for a sequence of length {} (expected a positive number, and a length below 2^53)", scale, length);
    lengths.push_back(static_cast<int64_t>(wanted));
  }
  return Ragged::from_lengths(lengths);
}

int64_t lead(const Windows& windows) {
  return windows.padding == Padding::same ? reach(windows) / 2 : windows.padding == Padding::causal ? reach(windows) : 0;
}

}  // namespace deckle
