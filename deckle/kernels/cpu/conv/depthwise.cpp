// One multiplication per element and tap; memory-bound: each row is read once from memory and size - 1 times from the caches.
// Sums in float (float32 and the halves) or double; those of the weight's gradient in blocks of rows, which are added in double.

#include "deckle/kernels/cpu/conv/depthwise.h"

#include "deckle/base/half.h"
#include "deckle/base/parallel.h"
#include "deckle/base/scratch.h"

namespace deckle::kernels::cpu::conv {
namespace {

constexpr int64_t kGrain = 32768;     // elements per parallel range
constexpr int64_t kBlockRows = 2048;  // rows per partial sum

template <typename T>
using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <typename T>
Sum<T> wide(T value) {
  return static_cast<Sum<T>>(value);
}

/// The weight as [size, C].
template <typename T>
Sum<T>* filters(const View& weight, Scratch& scratch) {
  const int64_t channels = weight.sizes[0], size = weight.sizes[2];
  auto* const result = scratch.take<Sum<T>>(channels * size);
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t t = 0; t < size; ++t) result[t * channels + c] = wide(weight.ptr<const T>()[c * size + t]);
  }
  return result;
}

template <typename T>
void add_product(const T* x, const Sum<T>* filter, int64_t count, Sum<T>* sums) {
  for (int64_t c = 0; c < count; ++c) sums[c] += wide(x[c]) * filter[c];
}

template <typename T>
void store(const Sum<T>* sums, int64_t count, T* to) {
  for (int64_t c = 0; c < count; ++c) to[c] = T(sums[c]);
}

/// Writes each row of `result`: row o of component b of `rows` is what sum(filter, sums, b, o) leaves in `sums`, channel by
/// channel.
template <typename T, class F>
void sum_taps(const Source& rows, const View& weight, const View& result, const F& sum) {
  const int64_t channels = weight.sizes[0];
  Scratch scratch;
  const Sum<T>* const filter = filters<T>(weight, scratch);
  parallel_for(result.sizes[0], std::max<int64_t>(1, kGrain / channels), [&](int64_t begin, int64_t end) {
    Scratch own;
    auto* const sums = own.take<Sum<T>>(channels);
    for_sequence_rows(rows, begin, end - begin, [&](int64_t i, int64_t b, int64_t o) {
      sum(filter, sums, b, o);
      store(sums, channels, result.ptr<T>() + (begin + i) * channels);
    });
  });
}

}  // namespace

void depthwise(const Source& source, const Taps& taps, const View& weight, const View& bias, const View& result) {
  const int64_t channels = weight.sizes[0];
  if (result.numel() == 0) return;
  visit_floating(result.dtype, [&]<typename T>(TypeTag<T>) {
    sum_taps<T>(source, weight, result, [&](const Sum<T>* filter, Sum<T>* sums, int64_t b, int64_t o) {
      const int64_t length = source.from[b + 1] - source.from[b];
      for (int64_t c = 0; c < channels; ++c) sums[c] = bias.defined ? wide(bias.ptr<const T>()[c]) : Sum<T>(0);
      for (int64_t t = 0; t < taps.count(); ++t) {
        const int64_t row = o * taps.step + taps.offsets[static_cast<size_t>(t)];
        if (row < 0 || row >= length) continue;
        add_product(reinterpret_cast<const T*>(source.data) + (source.from[b] + row) * channels, filter + t * channels, channels,
                    sums);
      }
    });
  });
}

void depthwise_transpose(const View& gradient, const RaggedView& windows, const RaggedView& ragged, const Taps& taps,
                         const View& weight, const View& result) {
  const int64_t channels = weight.sizes[0];
  if (result.numel() == 0) return;
  const Source rows{
      nullptr, result.dtype, channels, windows.offsets, {ragged.offsets, static_cast<size_t>(ragged.components) + 1}};
  visit_floating(result.dtype, [&]<typename T>(TypeTag<T>) {
    sum_taps<T>(rows, weight, result, [&](const Sum<T>* filter, Sum<T>* sums, int64_t b, int64_t o) {
      const int64_t count = windows.offsets[b + 1] - windows.offsets[b];
      std::fill_n(sums, channels, Sum<T>(0));
      for (int64_t t = 0; t < taps.count(); ++t) {
        const int64_t start = o - taps.offsets[static_cast<size_t>(t)], window = start / taps.step;
        if (start < 0 || start % taps.step != 0 || window >= count) continue;
        add_product(gradient.ptr<const T>() + (windows.offsets[b] + window) * channels, filter + t * channels, channels, sums);
      }
    });
  });
}

void depthwise_weight(const Source& source, const Taps& taps, const View& gradient, const View& result) {
  const int64_t rows = gradient.sizes[0], channels = result.sizes[0], size = taps.count();
  const int64_t blocks = (rows + kBlockRows - 1) / kBlockRows, per_block = size * channels;
  if (result.numel() == 0) return;
  visit_floating(result.dtype, [&]<typename T>(TypeTag<T>) {
    Scratch scratch;
    auto* const partial = scratch.take<Sum<T>>(blocks * per_block);  // [blocks, size, C]
    parallel_for(rows, kBlockRows, [&](int64_t begin, int64_t end) {
      Sum<T>* const sums = partial + begin / kBlockRows * per_block;
      std::fill_n(sums, per_block, Sum<T>(0));
      for_sequence_rows(source, begin, end - begin, [&](int64_t i, int64_t b, int64_t o) {
        const int64_t length = source.from[b + 1] - source.from[b];
        const T* const g = gradient.ptr<const T>() + (begin + i) * channels;
        for (int64_t t = 0; t < size; ++t) {
          const int64_t row = o * taps.step + taps.offsets[static_cast<size_t>(t)];
          if (row < 0 || row >= length) continue;
          const T* const x = reinterpret_cast<const T*>(source.data) + (source.from[b] + row) * channels;
          Sum<T>* const sum = sums + t * channels;
          for (int64_t c = 0; c < channels; ++c) sum[c] += wide(x[c]) * wide(g[c]);
        }
      });
    });
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t t = 0; t < size; ++t) {
        double total = 0;
        for (int64_t block = 0; block < blocks; ++block)
          total += static_cast<double>(partial[block * per_block + t * channels + c]);
        result.ptr<T>()[c * size + t] = T(static_cast<Sum<T>>(total));
      }
    }
  });
}

}  // namespace deckle::kernels::cpu::conv
