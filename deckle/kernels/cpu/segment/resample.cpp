// Sequences resampled at evenly spaced positions, and the transpose.                        values: [rows, inner], result:
// [places, inner]
//
//   linear    place i at p = (i + 1/2) / scale - 1/2, within the sequence, between the rows floor(p) and floor(p) + 1
//   nearest   row floor(i / scale)
// Memory-bound: two rows read for one written. The transpose adds the places of a row in order, in double.
// Instances: float (float32 and the halves), double.
//
// [1024, 1024] to twice as many rows, two threads of an Emerald Rapids, us:        float32   float64   bfloat16
//   a loop for SSE2, copied into the result                                          1,390     2,587      1,046
//   vectors of any instruction set, written where they belong                          871     1,936        880
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/segment/resample.cpp"
#include "deckle/kernels/cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "deckle/base/scratch.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/segment/empty_windows.h"
#include "deckle/kernels/cpu/segment/tasks.h"
#include "deckle/kernels/cpu/segment/weighted_sums.h"
#include "deckle/kernels/cpu/simd/rows.h"
#include "deckle/kernels/cpu/simd/table.h"

#ifndef DECKLE_KERNELS_CPU_SEGMENT_RESAMPLE_ONCE
#define DECKLE_KERNELS_CPU_SEGMENT_RESAMPLE_ONCE
namespace deckle::kernels::cpu {

/// Columns of two rows.
template <typename T>
struct ResampledRows {
  void (*between)(int64_t n, const T* before, const T* after, T share, T* result);
};

}  // namespace deckle::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::HWY_NAMESPACE {
namespace {

template <typename T>
void between(int64_t n, const T* before, const T* after, T share, T* result) {
  const hn::ScalableTag<T> d;
  const auto weight = hn::Set(d, share), rest = hn::Set(d, 1 - share);
  map_run(d, n, [&](auto part, int64_t c) HWY_ATTR {
    const auto x = part.load(before + c), y = part.load(after + c), difference = hn::Sub(y, x);
    const auto from_x = hn::MulAdd(difference, weight, x), of_both = hn::MulAdd(y, weight, hn::Mul(x, rest));
    // The first leaves x as it is where y is the same; of an infinite element, or a difference beyond T, it is NaN or infinite.
    part.store(hn::IfThenElse(hn::IsFinite(difference), from_x, of_both), result + c);
  });
}

}  // namespace

RealTable<ResampledRows> resample_table() { return {{&between<float>}, {&between<double>}}; }

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deckle::kernels::cpu {

HWY_EXPORT(resample_table);

namespace {

template <typename T>
struct Place {
  int64_t before, after;  // rows of the sequence
  T share;                // weight of the row after, less than 1

  Place(int64_t i, double scale, bool nearest, int64_t length) {
    const auto index = static_cast<double>(i), last = static_cast<double>(length - 1);
    const double exact = std::clamp(nearest ? std::floor(index / scale) : (index + 0.5) / scale - 0.5, 0.0, last);
    before = static_cast<int64_t>(exact);
    after = std::min(before + 1, length - 1);
    share = static_cast<T>(exact - static_cast<double>(before));
    if (share == 1) before = after, share = 0;  // rounded: an infinite row before has no part in it
  }
};

}  // namespace

void segment_resample(const Context&, const View& values, const RaggedView& ragged, const RaggedView& resampled, double scale,
                      bool nearest, const View& result) {
  segment::check_places_have_rows(ragged, resampled);
  const int64_t inner = segment::inner_size(values);
  DECKLE_SIMD(resample_table)
  ().visit(values.dtype, [&]<typename T>(TypeTag<T>, const ResampledRows<T>& rows) {
    segment::for_components(resampled, inner, [&](int64_t b, int64_t first, int64_t columns) {
      const int64_t begin = ragged.offsets[b], length = ragged.offsets[b + 1] - begin;
      T row[segment::kColumns], next[segment::kColumns], between[segment::kColumns];
      for (int64_t at = resampled.offsets[b]; at < resampled.offsets[b + 1]; ++at) {
        const Place<T> place(at - resampled.offsets[b], scale, nearest, length);
        const T* const x = segment::read_row(values, inner, begin + place.before, first, columns, row);
        if (place.share == 0) {
          segment::write_row(result, inner, at, first, columns, x);
          continue;
        }
        const T* const y = segment::read_row(values, inner, begin + place.after, first, columns, next);
        const bool direct = result.dtype == dtype_of<T>;
        T* const to = direct ? result.ptr<T>() + at * inner + first : between;
        rows.between(columns, x, y, place.share, to);
        if (!direct) segment::write_row(result, inner, at, first, columns, between);
      }
    });
  });
}

void segment_resample_backward(const Context&, const View& gradient, const RaggedView& resampled, const RaggedView& ragged,
                               double scale, bool nearest, const View& result) {
  const int64_t inner = segment::inner_size(gradient);
  segment::visit_real(gradient.dtype, [&]<typename T>(TypeTag<T>) {
    segment::for_components(ragged, inner, [&](int64_t b, int64_t first, int64_t columns) {
      const int64_t begin = ragged.offsets[b], length = ragged.offsets[b + 1] - begin;
      const int64_t first_place = resampled.offsets[b], places = resampled.offsets[b + 1] - first_place;
      segment::WeightedSums<T> sums(gradient, result, inner, first, columns, places);
      int64_t from = 0;  // places with a part in a row follow one another
      for (int64_t row = 0; row < length; ++row) {
        int64_t at = from, next = -1;  // the first of those with a part in the next row
        sums.begin(first_place + at);
        for (; at < places; ++at) {
          const Place<T> place(at, scale, nearest, length);
          if (place.before > row) break;
          const auto share = static_cast<double>(place.share);
          sums.add(place.before < row ? share : 1 - share);
          if (next < 0 && place.before == row && share != 0) next = at;
        }
        sums.write(begin + row);
        from = next < 0 ? at : next;
      }
    });
  });
}

}  // namespace deckle::kernels::cpu
#endif
