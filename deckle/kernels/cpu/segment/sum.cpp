// Sums and means of the rows of each component.                                   values: [rows, inner], sums: [B, inner]
//
// Read 4, write 4 / length bytes per element; one addition. A mean is the sum divided in double and rounded once; of no rows NaN.
// A block of columns is summed 16 rows deep in T and those partial sums in double: more accurate than pairwise, at memory speed.
// Work is cut by component and columns; a long component with few columns is also cut into pieces of kPiece rows, whose sums
// are added in order. Instances: float (float32 and the halves), double, int64_t (integers, bool); plain loops that the compiler
// vectorises for every instruction set. Memory is the limit.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/segment/sum.cpp"
#include "deckle/kernels/cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <vector>

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/segment/tasks.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::HWY_NAMESPACE {
namespace {

constexpr int64_t kDeep = 16;  // rows summed in T before they go to double

/// Columns [first, first + columns) of rows [begin, end), summed into `total`.
template <typename T>
void sum_rows(const View& values, const RaggedView& ragged, int64_t inner, int64_t begin, int64_t end, int64_t first,
              int64_t columns, segment::SumOf<T>* total) {
  T partial[segment::kColumns], buffer[segment::kColumns];
  std::fill_n(total, columns, segment::SumOf<T>{0});
  for (int64_t block = begin; block < end; block += kDeep) {
    std::fill_n(partial, columns, T{0});
    for (int64_t row = block; row < std::min(block + kDeep, end); ++row) {
      const T* const x = segment::read_run(values, ragged, inner, row, first, columns, buffer);
      for (int64_t c = 0; c < columns; ++c) partial[c] += x[c];
    }
    for (int64_t c = 0; c < columns; ++c) total[c] += static_cast<segment::SumOf<T>>(partial[c]);
  }
}

/// A component of one column is a plain run: eight sums side by side.
template <typename T>
segment::SumOf<T> sum_run(const View& values, const RaggedView& ragged, int64_t begin, int64_t end) {
  T buffer[segment::kColumns];
  segment::SumOf<T> total = 0;
  for (int64_t block = begin; block < end; block += segment::kColumns) {
    const int64_t count = std::min(segment::kColumns, end - block);
    const T* const x = segment::read_run(values, ragged, 1, block, 0, count, buffer);
    T sums[16] = {};
    int64_t i = 0;
    for (; i + 16 <= count; i += 16) {
      for (int lane = 0; lane < 16; ++lane) sums[lane] += x[i + lane];
    }
    for (int lane = 0; i < count; ++i, ++lane) sums[lane] += x[i];
    for (const T sum : sums) total += static_cast<segment::SumOf<T>>(sum);
  }
  return total;
}

template <typename T>
void sum_piece(const View& values, const RaggedView& ragged, int64_t inner, int64_t begin, int64_t end, int64_t first,
               int64_t columns, segment::SumOf<T>* total) {
  if (inner == 1)
    total[0] = sum_run<T>(values, ragged, begin, end);
  else
    sum_rows<T>(values, ragged, inner, begin, end, first, columns, total);
}

}  // namespace

void sum_piece_f32(const View& values, const RaggedView& ragged, int64_t inner, int64_t begin, int64_t end, int64_t first,
                   int64_t columns, double* total) {
  sum_piece<float>(values, ragged, inner, begin, end, first, columns, total);
}
void sum_piece_f64(const View& values, const RaggedView& ragged, int64_t inner, int64_t begin, int64_t end, int64_t first,
                   int64_t columns, double* total) {
  sum_piece<double>(values, ragged, inner, begin, end, first, columns, total);
}
void sum_piece_i64(const View& values, const RaggedView& ragged, int64_t inner, int64_t begin, int64_t end, int64_t first,
                   int64_t columns, int64_t* total) {
  sum_piece<int64_t>(values, ragged, inner, begin, end, first, columns, total);
}

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deckle::kernels::cpu {

HWY_EXPORT(sum_piece_f32);
HWY_EXPORT(sum_piece_f64);
HWY_EXPORT(sum_piece_i64);

namespace {

constexpr int64_t kPiece = 4096;  // rows of one piece of a long component

template <typename T>
auto piece_function() {
  if constexpr (std::is_same_v<T, float>)
    return DECKLE_SIMD(sum_piece_f32);
  else if constexpr (std::is_same_v<T, double>)
    return DECKLE_SIMD(sum_piece_f64);
  else
    return DECKLE_SIMD(sum_piece_i64);
}

/// Rounds the sums of `rows` rows, or their mean, into row b of the result.
template <typename T>
void finish(segment::SumOf<T>* total, int64_t rows, bool mean, const View& result, int64_t inner, int64_t b, int64_t first,
            int64_t columns) {
  T rounded[segment::kColumns];
  if constexpr (std::is_floating_point_v<T>) {
    for (int64_t c = 0; c < columns; ++c) rounded[c] = static_cast<T>(mean ? total[c] / static_cast<double>(rows) : total[c]);
  } else {
    std::copy_n(total, columns, rounded);
  }
  segment::write_row(result, inner, b, first, columns, rounded);
}

void sum_components(const View& values, const RaggedView& ragged, bool mean, const View& result) {
  const int64_t inner = segment::inner_size(values);
  if (inner == 0) return;
  // Pieces of components, in order; most components are one piece.
  std::vector<int64_t> first_piece(static_cast<size_t>(ragged.components) + 1, 0);
  for (int64_t b = 0; b < ragged.components; ++b) {
    const int64_t rows = ragged.offsets[b + 1] - ragged.offsets[b];
    first_piece[static_cast<size_t>(b) + 1] =
        first_piece[static_cast<size_t>(b)] + std::max<int64_t>(1, (rows + kPiece - 1) / kPiece);
  }
  const int64_t pieces = first_piece.back();
  const int64_t blocks = (inner + segment::kColumns - 1) / segment::kColumns;
  const int64_t average = std::max<int64_t>(1, ragged.rows() / std::max<int64_t>(pieces, 1));
  const int64_t grain = std::max<int64_t>(1, segment::kGrain / (average * std::min(inner, segment::kColumns)));
  simd::visit_compute(values.dtype, [&]<typename T>(TypeTag<T>) {
    using Sum = segment::SumOf<T>;
    const auto sum_piece = piece_function<T>();
    std::vector<Sum> partial(pieces > ragged.components ? static_cast<size_t>(pieces * inner) : 0);
    parallel_for(pieces * blocks, grain, [&](int64_t begin, int64_t end) {
      Sum total[segment::kColumns];
      int64_t b = std::upper_bound(first_piece.begin(), first_piece.end(), begin / blocks) - first_piece.begin() - 1;
      for (int64_t task = begin; task < end; ++task) {
        const int64_t piece = task / blocks, first = task % blocks * segment::kColumns;
        const int64_t columns = std::min(segment::kColumns, inner - first);
        b += piece == first_piece[static_cast<size_t>(b) + 1];
        const int64_t start = ragged.offsets[b] + (piece - first_piece[static_cast<size_t>(b)]) * kPiece,
                      last = ragged.offsets[b + 1];
        sum_piece(values, ragged, inner, start, std::min(start + kPiece, last), first, columns, total);
        if (partial.empty())
          finish<T>(total, last - ragged.offsets[b], mean, result, inner, b, first, columns);
        else
          std::copy_n(total, columns, partial.data() + piece * inner + first);
      }
    });
    if (partial.empty()) return;
    segment::for_components(ragged, inner, [&](int64_t b, int64_t first, int64_t columns) {
      Sum total[segment::kColumns];
      std::fill_n(total, columns, Sum{0});
      for (int64_t piece = first_piece[static_cast<size_t>(b)]; piece < first_piece[static_cast<size_t>(b) + 1]; ++piece) {
        for (int64_t c = 0; c < columns; ++c) total[c] += partial[static_cast<size_t>(piece * inner + first + c)];
      }
      finish<T>(total, ragged.offsets[b + 1] - ragged.offsets[b], mean, result, inner, b, first, columns);
    });
  });
}

}  // namespace

void segment_sum(const CpuContext&, const View& values, const RaggedView& ragged, const View& sums) {
  sum_components(values, ragged, false, sums);
}

void segment_mean(const CpuContext&, const View& values, const RaggedView& ragged, const View& means) {
  sum_components(values, ragged, true, means);
}

}  // namespace deckle::kernels::cpu
#endif
