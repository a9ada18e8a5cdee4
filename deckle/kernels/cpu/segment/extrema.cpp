// The largest value of each column of each component and where it stands; taking and putting values there.
//
// segment_max reads 4 bytes per element; segment_take and segment_put touch one element per column of a component. The first of
// equal values counts; NaN is larger than anything. Instances: float (float32 and the halves), double.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/segment/tasks.h"

namespace deckle::kernels::cpu {

void segment_max(const CpuContext&, const View& values, const RaggedView& ragged, const View& largest, const View& rows) {
  const int64_t inner = segment::inner_size(values);
  segment::visit_real(values.dtype, [&]<typename T>(TypeTag<T>) {
    segment::for_components(ragged, inner, [&](int64_t b, int64_t first, int64_t columns) {
      T best[segment::kColumns], buffer[segment::kColumns];
      int64_t* const where = rows.ptr<int64_t>() + b * inner + first;
      std::fill_n(best, columns, -std::numeric_limits<T>::infinity());
      std::fill_n(where, columns, int64_t{-1});
      for (int64_t row = ragged.offsets[b]; row < ragged.offsets[b + 1]; ++row) {
        const T* const x = segment::read_row(values, inner, row, first, columns, buffer);
        for (int64_t c = 0; c < columns; ++c) {
          if (x[c] > best[c] || where[c] < 0 || (std::isnan(x[c]) && !std::isnan(best[c]))) {
            best[c] = x[c];
            where[c] = row;
          }
        }
      }
      segment::write_row(largest, inner, b, first, columns, best);
    });
  });
}

void segment_take(const CpuContext&, const View& values, const View& rows, const View& result) {
  const int64_t inner = segment::inner_size(rows), count = rows.numel(), size = item_size(values.dtype);
  const auto* const where = rows.ptr<int64_t>();
  parallel_for(count, segment::kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      char* const to = static_cast<char*>(result.data) + i * size;
      if (where[i] < 0) std::memset(to, 0, static_cast<size_t>(size));
      else std::memcpy(to, static_cast<const char*>(values.data) + (where[i] * inner + i % inner) * size, static_cast<size_t>(size));
    }
  });
}

void segment_put(const CpuContext&, const View& gradient, const View& rows, int64_t, const View& result) {
  const int64_t inner = segment::inner_size(rows), count = rows.numel(), size = item_size(gradient.dtype);
  const auto* const where = rows.ptr<int64_t>();
  if (result.data != nullptr) std::memset(result.data, 0, static_cast<size_t>(result.numel() * size));
  parallel_for(count, segment::kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (where[i] < 0) continue;
      std::memcpy(static_cast<char*>(result.data) + (where[i] * inner + i % inner) * size, static_cast<const char*>(gradient.data) + i * size,
                  static_cast<size_t>(size));
    }
  });
}

}  // namespace deckle::kernels::cpu
