// The mean and the largest value of the rows in each window of a sequence, and sequences resampled at evenly spaced places.
//   window w of a sequence is its rows [w stride - lead, w stride - lead + size); a mean counts those that exist
//   linear    place i at p = (i + 1/2) / scale - 1/2, within the sequence, between the rows floor(p) and floor(p) + 1
//   nearest   row floor(i / scale)
// A thread an element; the transposes add up what reads a row in one order, in double. values: [rows, inner], result: [windows,
// inner]
#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/error.h"
#include "deckle/kernels/cpu/segment/empty_windows.h"
#include "deckle/kernels/cuda/segment/fold.cuh"

namespace deckle::kernels::cuda {
namespace {

using segment::DeviceRagged;
using segment::Values;

struct Pool {
  DeviceRagged rows, windows;
  int64_t size, stride, lead;

  /// The rows of sequence b inside its window w.
  __device__ void span(int64_t w, int64_t length, int64_t& begin, int64_t& end) const {
    begin = max(w * stride - lead, int64_t{0});
    end = min(w * stride - lead + min(size, length + lead), length);
  }
};

template <typename T, bool kMean>
__global__ void __launch_bounds__(256) pool(Pool p, Values x, Values y, int64_t* positions, int64_t count) {
  const int64_t e = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (e >= count) return;
  const int64_t at = e / x.inner, column = e - at * x.inner, b = p.windows.component(at), first = p.rows.offsets[b];
  int64_t begin, end;
  p.span(at - p.windows.offsets[b], p.rows.offsets[b + 1] - first, begin, end);
  if constexpr (kMean) {
    double sum = 0;
    for (int64_t row = begin; row < end; ++row) sum += x.get<double>(first + row, column);
    y.put(sum / static_cast<double>(end - begin), at, column);
  } else {
    T best = x.get<T>(first + begin, column);
    int64_t where = begin;
    for (int64_t row = begin + 1; row < end; ++row) {
      const T value = x.get<T>(first + row, column);
      if (value > best || (value != value && best == best)) {
        best = value;
        where = row;
      }
    }
    y.put(best, at, column);
    positions[e] = where;
  }
}

__global__ void __launch_bounds__(256) mean_backward(Pool p, Values g, Values result, int64_t count) {
  const int64_t e = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (e >= count) return;
  const int64_t at = e / g.inner, column = e - at * g.inner, b = p.rows.component(at), row = at - p.rows.offsets[b];
  const int64_t length = p.rows.offsets[b + 1] - p.rows.offsets[b], first = p.windows.offsets[b];
  const int64_t windows = p.windows.offsets[b + 1] - first, before = row + p.lead - p.size + 1;
  double sum = 0;
  for (int64_t w = before <= 0 ? 0 : (before - 1) / p.stride + 1; w < windows && w * p.stride <= row + p.lead; ++w) {
    int64_t begin, end;
    p.span(w, length, begin, end);
    sum += g.get<double>(first + w, column) / static_cast<double>(end - begin);
  }
  result.put(sum, at, column);
}

template <typename T>
__global__ void __launch_bounds__(256)
    maximum_backward(Pool p, Values g, const int64_t* positions, Values result, int64_t count) {
  const int64_t e = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (e >= count) return;
  const int64_t at = e / g.inner, column = e - at * g.inner, b = p.rows.component(at), row = at - p.rows.offsets[b];
  const int64_t first = p.windows.offsets[b], windows = p.windows.offsets[b + 1] - first, before = row + p.lead - p.size + 1;
  double sum = 0;
  for (int64_t w = before <= 0 ? 0 : (before - 1) / p.stride + 1; w < windows && w * p.stride <= row + p.lead; ++w) {
    if (positions[(first + w) * g.inner + column] == row) sum += g.get<double>(first + w, column);
  }
  result.put(static_cast<T>(sum), at, column);
}

template <typename T>
__global__ void __launch_bounds__(256) gather_windows(Pool p, Values x, const int64_t* positions, Values result, int64_t count) {
  const int64_t e = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (e >= count) return;
  const int64_t at = e / x.inner, column = e - at * x.inner, b = p.windows.component(at), first = p.rows.offsets[b];
  int64_t begin, end;
  p.span(at - p.windows.offsets[b], p.rows.offsets[b + 1] - first, begin, end);
  const int64_t row = positions[e];
  result.put(row >= begin && row < end ? x.get<T>(first + row, column) : T(0), at, column);
}

struct Resample {
  DeviceRagged rows, places;
  double scale;
  bool nearest;

  template <typename T>
  struct Place {
    int64_t before, after;
    T share;  // weight of the row after, less than 1
  };
  template <typename T>
  __device__ Place<T> place(int64_t i, int64_t length) const {
    const double index = static_cast<double>(i), last = static_cast<double>(length - 1);
    const double exact = fmin(fmax(nearest ? ::floor(index / scale) : (index + 0.5) / scale - 0.5, 0.0), last);
    const auto before = static_cast<int64_t>(exact);
    const int64_t after = min(before + 1, length - 1);
    const T share = static_cast<T>(exact - static_cast<double>(before));
    if (share == 1) return {after, after, 0};  // rounded: an infinite row before has no part in it
    return {before, after, share};
  }
};

template <typename T>
__global__ void __launch_bounds__(256) resample(Resample r, Values x, Values y, int64_t count) {
  const int64_t e = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (e >= count) return;
  const int64_t at = e / x.inner, column = e - at * x.inner, b = r.places.component(at), first = r.rows.offsets[b];
  const Resample::Place<T> place = r.place<T>(at - r.places.offsets[b], r.rows.offsets[b + 1] - first);
  const T from = x.get<T>(first + place.before, column);
  const T to = place.share == 0 ? from : x.get<T>(first + place.after, column);
  const T difference = to - from;
  // Of an infinite element, or a difference beyond T, the sum of both.
  const T between = ::isfinite(difference) ? from + difference * place.share : from * (1 - place.share) + to * place.share;
  y.put(place.share == 0 ? from : between, at, column);
}

/// Places ascend: those that read a row are neighbours, the first of which is searched for.
template <typename T>
__global__ void __launch_bounds__(256) resample_backward(Resample r, Values g, Values result, int64_t count) {
  const int64_t e = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (e >= count) return;
  const int64_t at = e / g.inner, column = e - at * g.inner, b = r.rows.component(at), row = at - r.rows.offsets[b];
  const int64_t length = r.rows.offsets[b + 1] - r.rows.offsets[b], first = r.places.offsets[b];
  const int64_t places = r.places.offsets[b + 1] - first;
  int64_t low = 0, high = places;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (r.place<T>(middle, length).before < row - 1)
      low = middle + 1;
    else
      high = middle;
  }
  double sum = 0;
  for (int64_t i = low; i < places; ++i) {
    const Resample::Place<T> place = r.place<T>(i, length);
    if (place.before > row) break;
    const double gradient = g.get<double>(first + i, column), share = static_cast<double>(place.share);
    if (place.before == row) sum += gradient * (1 - share);
    if (place.after == row && share != 0) sum += gradient * share;
  }
  result.put(sum, at, column);
}

unsigned blocks_of(int64_t count) { return static_cast<unsigned>((count + 255) / 256); }

/// Calls launch(T(), the two shapes on the device, stream).
template <typename Launch>
void run(const Context& context, DType dtype, const RaggedView& rows, const RaggedView& windows, const View& result,
         const Launch& launch) {
  if (result.numel() == 0) return;
  const deckle::cuda::DeviceGuard guard(context.device);
  const segment::Uploaded of_rows(context, rows), of_windows(context, windows);
  const cudaStream_t stream = deckle::cuda::stream_handle(context.device);
  if (dtype == DType::float64)
    launch(double(), of_rows.ragged(), of_windows.ragged(), stream);
  else
    launch(float(), of_rows.ragged(), of_windows.ragged(), stream);
  deckle::cuda::check_launch(context.device);
}

}  // namespace

void segment_avg_pool1d(const Context& context, const View& values, const RaggedView& ragged, const RaggedView& windows,
                        int64_t size, int64_t stride, int64_t lead, const View& result) {
  run(context, values.dtype, ragged, windows, result, [&](auto zero, const auto& rows, const auto& places, cudaStream_t stream) {
    pool<decltype(zero), true><<<blocks_of(result.numel()), 256, 0, stream>>>({rows, places, size, stride, lead}, Values(values),
                                                                              Values(result), nullptr, result.numel());
  });
}
void segment_avg_pool1d_backward(const Context& context, const View& gradient, const RaggedView& windows,
                                 const RaggedView& ragged, int64_t size, int64_t stride, int64_t lead, const View& result) {
  run(context, gradient.dtype, ragged, windows, result, [&](auto, const auto& rows, const auto& places, cudaStream_t stream) {
    mean_backward<<<blocks_of(result.numel()), 256, 0, stream>>>({rows, places, size, stride, lead}, Values(gradient),
                                                                 Values(result), result.numel());
  });
}
void segment_max_pool1d(const Context& context, const View& values, const RaggedView& ragged, const RaggedView& windows,
                        int64_t size, int64_t stride, int64_t lead, const View& result, const View& positions) {
  cpu::segment::check_windows_have_rows(ragged, windows, size, stride, lead);
  run(context, values.dtype, ragged, windows, result, [&](auto zero, const auto& rows, const auto& places, cudaStream_t stream) {
    pool<decltype(zero), false><<<blocks_of(result.numel()), 256, 0, stream>>>(
        {rows, places, size, stride, lead}, Values(values), Values(result), positions.ptr<int64_t>(), result.numel());
  });
}
void segment_max_pool1d_backward(const Context& context, const View& gradient, const RaggedView& windows, const View& positions,
                                 const RaggedView& ragged, int64_t size, int64_t stride, int64_t lead, const View& result) {
  cpu::segment::check_windows_have_rows(ragged, windows, size, stride, lead);
  run(context, gradient.dtype, ragged, windows, result,
      [&](auto zero, const auto& rows, const auto& places, cudaStream_t stream) {
        maximum_backward<decltype(zero)><<<blocks_of(result.numel()), 256, 0, stream>>>(
            {rows, places, size, stride, lead}, Values(gradient), positions.ptr<const int64_t>(), Values(result), result.numel());
      });
}
void segment_window_gather(const Context& context, const View& values, const RaggedView& ragged, const View& positions,
                           const RaggedView& windows, int64_t size, int64_t stride, int64_t lead, const View& result) {
  cpu::segment::check_windows_have_rows(ragged, windows, size, stride, lead);
  run(context, values.dtype, ragged, windows, result, [&](auto zero, const auto& rows, const auto& places, cudaStream_t stream) {
    gather_windows<decltype(zero)><<<blocks_of(result.numel()), 256, 0, stream>>>(
        {rows, places, size, stride, lead}, Values(values), positions.ptr<const int64_t>(), Values(result), result.numel());
  });
}
void segment_resample(const Context& context, const View& values, const RaggedView& ragged, const RaggedView& resampled,
                      double scale, bool nearest, const View& result) {
  cpu::segment::check_places_have_rows(ragged, resampled);
  run(context, values.dtype, ragged, resampled, result,
      [&](auto zero, const auto& rows, const auto& places, cudaStream_t stream) {
        resample<decltype(zero)><<<blocks_of(result.numel()), 256, 0, stream>>>({rows, places, scale, nearest}, Values(values),
                                                                                Values(result), result.numel());
      });
}
void segment_resample_backward(const Context& context, const View& gradient, const RaggedView& resampled,
                               const RaggedView& ragged, double scale, bool nearest, const View& result) {
  run(context, gradient.dtype, ragged, resampled, result,
      [&](auto zero, const auto& rows, const auto& places, cudaStream_t stream) {
        resample_backward<decltype(zero)><<<blocks_of(result.numel()), 256, 0, stream>>>(
            {rows, places, scale, nearest}, Values(gradient), Values(result), result.numel());
      });
}

}  // namespace deckle::kernels::cuda
