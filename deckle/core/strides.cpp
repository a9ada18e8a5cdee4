#include "deckle/core/strides.h"

#include <algorithm>

namespace deckle {

Dims bounded_strides(IntSpan strides, int64_t most) {
  Dims bounded(strides);
  for (int64_t& stride : bounded) stride = std::min(stride, most);
  return bounded;
}

namespace {

struct Step {
  int64_t stride, size;
  auto operator<=>(const Step&) const = default;
};
using Steps = SmallVector<Step, 6>;

/// The dims in which a tensor with elements has several, those of the smallest steps first.
Steps ascending_steps(IntSpan sizes, IntSpan strides) {
  Steps steps;
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    if (sizes[dim] > 1) steps.push_back({strides[dim], sizes[dim]});
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

/// Whether `distance` is a sum of steps, of each in either direction fewer than its size, the first `count` of `steps`.
bool is_sum_of(const Steps& steps, size_t count, int64_t distance) {
  if (count == 0) return distance == 0;
  const auto [stride, size] = steps[count - 1];
  // Smaller steps together reach less far than this one: only the multiples beside the distance are left.
  const int64_t below = distance >= 0 ? distance / stride : -((stride - 1 - distance) / stride);
  for (const int64_t multiple : {below, below + 1}) {
    if (multiple > -size && multiple < size && is_sum_of(steps, count - 1, distance - multiple * stride)) return true;
  }
  return false;
}

}  // namespace

bool distinct_places(IntSpan sizes, IntSpan strides) {
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return true;
  int64_t reach = 0;  // of the dims before, from their first element to their last
  for (const auto& [stride, size] : ascending_steps(sizes, strides)) {
    if (stride <= reach) return false;
    reach += (size - 1) * stride;
  }
  return true;
}

bool meets_itself(IntSpan sizes, IntSpan strides, int64_t distance) {
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return false;
  const Steps steps = ascending_steps(sizes, strides);
  return is_sum_of(steps, steps.size(), distance);
}

}  // namespace deckle
