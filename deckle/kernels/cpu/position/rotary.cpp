// Rotary position embedding (Su et al., 2021).      self, result: [R, H, D]; positions: [R]; cosines, sines: [P, D / 2]
//
//   result[i]         = self[i] c[i] - self[i + D/2] s[i]
//   result[i + D/2]   = self[i] s[i] + self[i + D/2] c[i]      with c, s of the row's position
//
// Bytes: reads and writes self once; 3 FLOPs an element. Memory-bound, so a plain loop that the compiler vectorises will do.
// Instances: float32, float64; float16 and bfloat16 are rotated in float32.

#include <algorithm>

#include "deckle/base/check.h"
#include "deckle/base/parallel.h"
#include "deckle/base/range.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/view.h"

namespace deckle::kernels::cpu {
namespace {

constexpr int64_t kElementsPerTask = 1 << 15;  // 128 KiB of float32: enough work to amortise a task

template <typename T, typename Compute>
void turn(const T* __restrict x, const T* __restrict cosines, const T* __restrict sines, T* __restrict y, int64_t half) {
  for (int64_t i = 0; i < half; ++i) {
    const auto a = static_cast<Compute>(x[i]), b = static_cast<Compute>(x[i + half]);
    const auto c = static_cast<Compute>(cosines[i]), s = static_cast<Compute>(sines[i]);
    y[i] = static_cast<T>(a * c - b * s);
    y[i + half] = static_cast<T>(a * s + b * c);
  }
}

}  // namespace

void rotary(const Context&, const View& self, const View& positions, const View& cosines, const View& sines, const View& result) {
  const int64_t heads = self.sizes[self.ndim - 2], size = self.sizes[self.ndim - 1], half = size / 2;
  const int64_t known = cosines.sizes[0];
  const auto* position = positions.ptr<int64_t>();
  visit_floating(self.dtype, [&]<typename T>(TypeTag<T>) {
    using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;
    parallel_for(positions.numel(), kElementsPerTask / std::max<int64_t>(heads * size, 1), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t at = position[row];
        check(at >= 0 && at < known, "position {} is out of range (expected {})", at, Range{0, known - 1});
        for (int64_t head = 0; head < heads; ++head) {
          const int64_t offset = (row * heads + head) * size;
          turn<T, Compute>(self.ptr<T>() + offset, cosines.ptr<T>() + at * half, sines.ptr<T>() + at * half,
                           result.ptr<T>() + offset, half);
        }
      }
    });
  });
}

}  // namespace deckle::kernels::cpu
