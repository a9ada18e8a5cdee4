// result[outer, r, :] = base[outer, r, :] + sum over {i : index[i] = r} of source[outer, i, :]
//
// A counting sort lists the sources of every row, so each row is summed by one thread in float64, in ascending order of i:
// no atomics, the same bits for any number of threads. Bytes: the source once, the result once, the base once.
//
// 1024 rows of 1024 added to as many, two threads of an Emerald Rapids, us:            float32   bfloat16
//   sums of a whole row in float64, compiled for SSE2                                      690       1,210
//   by simd/sum_rows.h: one source or none in the element's type                          254         222
// Elements (rows of one) of 1024 outer items:
//   sums widened and rounded one by one, indices checked one by one                       1,131       1,749
//   in vectors, and checked beforehand                                                       679         818

#include "deckle/kernels/cpu/index/add_rows.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "deckle/base/parallel.h"
#include "deckle/base/scratch.h"
#include "deckle/kernels/cpu/index/sums.h"
#include "deckle/kernels/cpu/simd/sum_rows.h"

namespace deckle::kernels::cpu::indexing {
namespace {

constexpr int64_t kShort = 4, kFewestItems = 16, kMaxSums = 1 << 15;  // rows of up to 4 elements; 256 KiB of sums
constexpr int64_t kMaxVector = 1 << 22;                               // 32 MiB of sums

// sources[starts[r] .. starts[r + 1]) are the i with index[i] = r, ascending.
struct Buckets {
  std::vector<int64_t> starts;
  std::vector<int64_t> sources;

  Buckets(const View& index, int64_t rows, bool skip_missing)
      : starts(static_cast<size_t>(rows) + 1, 0), sources(static_cast<size_t>(index.numel())) {
    visit_index(index, [&](const auto* indices) {
      const int64_t count = index.numel();
      for (int64_t i = 0; i < count; ++i) {
        if (skip_missing && indices[i] == -1) continue;
        check_index(static_cast<int64_t>(indices[i]), rows);
        ++starts[static_cast<size_t>(indices[i]) + 1];
      }
      for (size_t row = 1; row < starts.size(); ++row) starts[row] += starts[row - 1];
      Scratch scratch;
      auto* const next = scratch.take<int64_t>(rows);
      std::copy_n(starts.begin(), rows, next);
      for (int64_t i = 0; i < count; ++i) {
        if (indices[i] >= 0) sources[static_cast<size_t>(next[indices[i]]++)] = i;
      }
    });
  }
};

template <typename T>
void add_rows_of(const View& base, const RowShape& shape, const Buckets& buckets, const View& source, const View& result) {
  const auto* from = source.ptr<const T>();
  const auto* start_values = base.ptr<const T>();
  auto* to = result.ptr<T>();
  const auto count = static_cast<int64_t>(buckets.sources.size());
  // If most rows stay zero, clear everything with one memset: at that size it does not read the lines it overwrites.
  const bool mostly_zero = !base.defined && 4 * count < shape.rows;
  if (mostly_zero && to != nullptr) std::memset(result.data, 0, static_cast<size_t>(result.numel()) * sizeof(T));
  const int64_t bytes_per_row = shape.inner * item_size(source.dtype) * (1 + count / std::max<int64_t>(shape.rows, 1));
  const simd::SumRows sum = simd::sum_rows(result.dtype);
  parallel_for(shape.outer * shape.rows, grain_of(bytes_per_row), [&](int64_t begin, int64_t end) {
    for (int64_t target = begin; target < end; ++target) {
      const int64_t outer = target / shape.rows, row = target % shape.rows;
      const int64_t first = buckets.starts[static_cast<size_t>(row)], last = buckets.starts[static_cast<size_t>(row) + 1];
      if (mostly_zero && first == last) continue;
      const T* const start = base.defined ? start_values + target * shape.inner : nullptr;
      sum(start, {from + outer * count * shape.inner, shape.inner, buckets.sources.data() + first, last - first},
          to + target * shape.inner);
    }
  });
}

/// As add_rows_of for rows of few elements: each outer item is read in the order of memory, and its sums lie in cache.
template <typename T>
void add_short_rows(const View& base, const RowShape& shape, const View& index, bool skip_missing, const View& source,
                    const View& result) {
  const auto* from = source.ptr<const T>();
  const auto* start_values = base.ptr<const T>();
  auto* to = result.ptr<T>();
  const int64_t count = index.numel(), size = shape.rows * shape.inner;
  check_indices(index, shape.rows, skip_missing);
  const bool reversed = shape.inner == 1 && counts_down(index, shape.rows);
  visit_index(index, [&](const auto* indices) {
    parallel_for(shape.outer, grain_of((size + count * shape.inner) * item_size(result.dtype)), [&](int64_t begin, int64_t end) {
      Scratch scratch;
      auto* const sums = scratch.take<SumOf<T>>(size);
      for (int64_t outer = begin; outer < end; ++outer) {
        if (base.defined)
          widen_run(start_values + outer * size, size, sums);
        else
          std::fill_n(sums, size, SumOf<T>{0});
        const T* const values = from + outer * count * shape.inner;
        if (reversed) {
          SumOf<T>* const last = sums + indices[0];
          for (int64_t i = 0; i < count; ++i) last[-i] += static_cast<SumOf<T>>(values[i]);
        } else if (shape.inner == 1 && !skip_missing) {
          for (int64_t i = 0; i < count; ++i) sums[indices[i]] += static_cast<SumOf<T>>(values[i]);
        } else {
          for (int64_t i = 0; i < count; ++i) {
            const auto row = static_cast<int64_t>(indices[i]);
            if (skip_missing && row == -1) continue;
            if (shape.inner == 1) {
              sums[row] += static_cast<SumOf<T>>(values[i]);
              continue;
            }
            for (int64_t j = 0; j < shape.inner; ++j)
              sums[row * shape.inner + j] += static_cast<SumOf<T>>(values[i * shape.inner + j]);
          }
        }
        round_run(sums, size, to + outer * size);
      }
    });
  });
}

}  // namespace

void add_rows(const View& base, const RowShape& shape, const View& index, const View& source, const View& result,
              bool skip_missing) {
  // Of a vector the sums are taken one after another: listing the sources of every row would be more serial work.
  const bool vector = shape.inner == 1 && shape.outer == 1 && shape.rows <= kMaxVector;
  const bool short_rows =
      vector || (shape.inner <= kShort && shape.outer >= kFewestItems && shape.rows * shape.inner <= kMaxSums);
  if (short_rows) {
    visit(result.dtype, [&]<typename T>(TypeTag<T>) { add_short_rows<T>(base, shape, index, skip_missing, source, result); });
    return;
  }
  const Buckets buckets(index, shape.rows, skip_missing);
  visit(result.dtype, [&]<typename T>(TypeTag<T>) { add_rows_of<T>(base, shape, buckets, source, result); });
}

}  // namespace deckle::kernels::cpu::indexing
