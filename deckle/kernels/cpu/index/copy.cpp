// target = source, converted, both of any strides.                         Reads and writes every element once.
//
// Dims are merged first where both allow. Work is partitioned by the target's memory; if the source's dense dim is another one (a
// transpose), both dims are traversed in blocks of 64 x 64, so that every cache line is fully used. Where elements of a transpose
// repeat a few times, a block is transposed first (each element twice, [1024, 1024], float32: 446 us in place of 5,442).

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "deckle/base/parallel.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/index/rows.h"
#include "deckle/kernels/cpu/simd/convert.h"
#include "deckle/kernels/cpu/simd/convert_element.h"
#include "deckle/kernels/cpu/simd/repeat.h"
#include "deckle/kernels/cpu/simd/reverse.h"
#include "deckle/kernels/cpu/simd/transpose.h"

namespace deckle::kernels::cpu {

using namespace indexing;
namespace {

constexpr int64_t kRun = 512;        // elements converted at a time, through L1
constexpr int64_t kSide = 64;        // of a transposed block
constexpr int64_t kLongRepeat = 16;  // an element repeated as often as that is a run of its own
constexpr int64_t kRangeElements = 1 << 14;

/// Elements of a range that is moved as it lies: 64 KiB of narrow ones, which cost less than starting a range of as few elements
/// (filling 1 MiB of bool: 20 us in place of 31, two threads).
template <typename T>
constexpr int64_t kRangeMoved = std::max<int64_t>(1, 4 / sizeof(T)) * kRangeElements;

struct Dim {
  int64_t size, source, target;
};

// The dims of both views, in descending order of the target's stride, merged where both are contiguous.
struct Walk {
  std::array<Dim, kMaxDims> dims{};
  int count = 0;

  Walk(const View& source, const View& target) {
    std::array<Dim, kMaxDims> sorted{};
    int kept = 0;
    for (int i = 0; i < target.ndim; ++i) {
      if (target.sizes[i] != 1) sorted[static_cast<size_t>(kept++)] = {target.sizes[i], source.strides[i], target.strides[i]};
    }
    std::stable_sort(sorted.begin(), sorted.begin() + kept, [](const Dim& a, const Dim& b) { return a.target > b.target; });
    for (int i = 0; i < kept; ++i) {
      const Dim& dim = sorted[static_cast<size_t>(i)];
      Dim* outer = count > 0 ? &dims[static_cast<size_t>(count - 1)] : nullptr;
      if (outer && outer->source == dim.size * dim.source && outer->target == dim.size * dim.target) {
        *outer = {outer->size * dim.size, dim.source, dim.target};
      } else {
        dims[static_cast<size_t>(count++)] = dim;
      }
    }
    if (count == 0) dims[static_cast<size_t>(count++)] = {1, 1, 1};
  }

  Dim& last() { return dims[static_cast<size_t>(count - 1)]; }

  /// Removes dim `i`, which gets a loop of its own.
  Dim take(int i) {
    const Dim taken = dims[static_cast<size_t>(i)];
    std::copy(dims.begin() + i + 1, dims.begin() + count, dims.begin() + i);
    --count;
    return taken;
  }

  int64_t numel() const {
    int64_t product = 1;
    for (int i = 0; i < count; ++i) product *= dims[static_cast<size_t>(i)].size;
    return product;
  }

  /// Offsets of the n-th element of the remaining dims.
  std::pair<int64_t, int64_t> offsets(int64_t n) const {
    int64_t source = 0, target = 0;
    for (int i = count - 1; i >= 0; --i) {
      const Dim& dim = dims[static_cast<size_t>(i)];
      source += n % dim.size * dim.source;
      target += n % dim.size * dim.target;
      n /= dim.size;
    }
    return {source, target};
  }
};

template <typename From, typename To>
To convert_value(From value) {
  if constexpr (std::is_same_v<To, bool>)
    return static_cast<double>(value) != 0.0;
  else
    return simd::convert<To>(value);
}

/// The types that kernels compute in.
template <typename T>
constexpr bool kComputed = std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_same_v<T, int64_t>;

template <typename From, typename To>
void convert_run(const void* from, void* to, int64_t count) {
  const auto* source = static_cast<const From*>(from);
  auto* target = static_cast<To*>(to);
  if constexpr (kComputed<To>)  // these have the processor's widest instructions
    simd::load_run(source, dtype_of<From>, 1, count, target);
  else if constexpr (kComputed<From>)
    simd::store_run(source, count, target, dtype_of<To>, 1);
  else
    for (int64_t i = 0; i < count; ++i) target[i] = convert_value<From, To>(source[i]);
}

using ConvertRun = void (*)(const void* from, void* to, int64_t count);

ConvertRun converter(DType from, DType to) {
  return visit(from, [&]<typename From>(TypeTag<From>) {
    return visit(to, [&]<typename To>(TypeTag<To>) -> ConvertRun { return &convert_run<From, To>; });
  });
}

template <typename T>
void fill_run(T value, int64_t count, T* to) {
  if constexpr (sizeof(T) == 1)
    std::memset(to, value, static_cast<size_t>(count));
  else
    simd::repeat_each(&value, 1, count, to);
}

template <typename T>
void move_run(const T* from, int64_t from_stride, T* to, int64_t to_stride, int64_t count) {
  if (from_stride == 1 && to_stride == 1)
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
  else if (from_stride == 0 && to_stride == 1)
    fill_run(*from, count, to);
  else if (from_stride == -1 && to_stride == 1)
    simd::reverse(from - (count - 1), count, to);
  else
    for (int64_t i = 0; i < count; ++i) to[i * to_stride] = from[i * from_stride];
}

/// to[i stride + j step] = from[i], for j < times.
template <typename T>
void repeat_each(const T* from, int64_t count, int64_t times, T* to, int64_t stride, int64_t step) {
  if (times == 2 && stride == 2 && step == 1) {
    for (int64_t i = 0; i < count; ++i) to[2 * i] = to[2 * i + 1] = from[i];
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t j = 0; j < times; ++j) to[i * stride + j * step] = from[i];
  }
}

/// A transpose whose elements are each written `times` in a row: through a block that is transposed alone.
template <typename T>
void repeat_transposed(Walk walk, int64_t times, int dense, const T* from, T* to) {
  const Dim inner = walk.take(walk.count - 1), other = walk.take(dense);
  const int64_t rows = (other.size + kSide - 1) / kSide, cols = (inner.size + kSide - 1) / kSide;
  parallel_for(walk.numel() * rows * cols, std::max<int64_t>(1, kRangeElements / (kSide * kSide * times)),
               [&](int64_t begin, int64_t end) {
                 alignas(64) T transposed[kSide * kSide];
                 for (int64_t block = begin; block < end; ++block) {
                   const auto [s, t] = walk.offsets(block / (rows * cols));
                   const int64_t row = block / cols % rows * kSide, col = block % cols * kSide;
                   const int64_t tall = std::min(kSide, other.size - row), wide = std::min(kSide, inner.size - col);
                   simd::transpose(from + s + row + col * inner.source, inner.source, wide, tall, transposed, kSide);
                   for (int64_t i = 0; i < tall; ++i)
                     repeat_each(transposed + i * kSide, wide, times, to + t + (row + i) * other.target + col * times, times, 1);
                 }
               });
}

template <typename T>
void move(Walk walk, const void* source, void* target) {
  const auto* from = static_cast<const T*>(source);
  auto* to = static_cast<T*>(target);
  const Dim inner = walk.take(walk.count - 1);
  int dense = -1;
  for (int i = 0; i < walk.count; ++i) {
    if (walk.dims[static_cast<size_t>(i)].source == 1) dense = i;
  }
  if (inner.source == 1 || dense < 0 || (inner.source == 0 && inner.size >= kLongRepeat)) {
    const int64_t pieces = (inner.size + kRangeMoved<T> - 1) / kRangeMoved<T>;
    const int64_t piece = (inner.size + pieces - 1) / std::max<int64_t>(pieces, 1);
    parallel_for(walk.numel() * pieces, 1 + kRangeMoved<T> / (piece + 1), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const auto [s, t] = walk.offsets(i / pieces);
        const int64_t first = i % pieces * piece, count = std::min(piece, inner.size - first);
        move_run(from + s + first * inner.source, inner.source, to + t + first * inner.target, inner.target, count);
      }
    });
    return;
  }
  if (inner.source == 0 && inner.target == 1 && dense < walk.count - 1 && walk.last().target == inner.size)
    return repeat_transposed(walk, inner.size, dense, from, to);
  const Dim other = walk.take(dense);
  const int64_t rows = (other.size + kSide - 1) / kSide, cols = (inner.size + kSide - 1) / kSide;
  parallel_for(walk.numel() * rows * cols, std::max<int64_t>(1, kRangeElements / (kSide * kSide)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t block = begin; block < end; ++block) {
                   const auto [s, t] = walk.offsets(block / (rows * cols));
                   const int64_t row = block / cols % rows * kSide, col = block % cols * kSide;
                   const int64_t tall = std::min(kSide, other.size - row), wide = std::min(kSide, inner.size - col);
                   const T* const block_from = from + s + row + col * inner.source;
                   T* const block_to = to + t + row * other.target + col * inner.target;
                   if (inner.source == 0) {
                     repeat_each(block_from, tall, wide, block_to, other.target, inner.target);
                     continue;
                   }
                   if (inner.target == 1) {
                     simd::transpose(block_from, inner.source, wide, tall, block_to, other.target);
                     continue;
                   }
                   for (int64_t i = 0; i < tall; ++i) {
                     for (int64_t j = 0; j < wide; ++j)
                       block_to[i * other.target + j * inner.target] = block_from[i + j * inner.source];
                   }
                 }
               });
}

void move_any(const Walk& walk, int64_t bytes, const void* source, void* target) {
  switch (bytes) {
    case 1:
      return move<uint8_t>(walk, source, target);
    case 2:
      return move<uint16_t>(walk, source, target);
    case 4:
      return move<uint32_t>(walk, source, target);
    default:
      return move<uint64_t>(walk, source, target);
  }
}

void gather_bytes(const void* from, int64_t stride, void* to, int64_t bytes, int64_t count) {
  switch (bytes) {
    case 1:
      return move_run(static_cast<const uint8_t*>(from), stride, static_cast<uint8_t*>(to), 1, count);
    case 2:
      return move_run(static_cast<const uint16_t*>(from), stride, static_cast<uint16_t*>(to), 1, count);
    case 4:
      return move_run(static_cast<const uint32_t*>(from), stride, static_cast<uint32_t*>(to), 1, count);
    default:
      return move_run(static_cast<const uint64_t*>(from), stride, static_cast<uint64_t*>(to), 1, count);
  }
}

void scatter_bytes(const void* from, void* to, int64_t stride, int64_t bytes, int64_t count) {
  switch (bytes) {
    case 1:
      return move_run(static_cast<const uint8_t*>(from), 1, static_cast<uint8_t*>(to), stride, count);
    case 2:
      return move_run(static_cast<const uint16_t*>(from), 1, static_cast<uint16_t*>(to), stride, count);
    case 4:
      return move_run(static_cast<const uint32_t*>(from), 1, static_cast<uint32_t*>(to), stride, count);
    default:
      return move_run(static_cast<const uint64_t*>(from), 1, static_cast<uint64_t*>(to), stride, count);
  }
}

void convert(Walk walk, const View& source, const View& target) {
  const ConvertRun run = converter(source.dtype, target.dtype);
  const int64_t from_bytes = item_size(source.dtype), to_bytes = item_size(target.dtype);
  const auto* from = static_cast<const char*>(source.data);
  auto* to = static_cast<char*>(target.data);
  const Dim inner = walk.take(walk.count - 1);
  const int64_t pieces = (inner.size + kRun - 1) / kRun;
  parallel_for(walk.numel() * pieces, 1 + kRangeElements / (std::min(inner.size, kRun) + 1), [&](int64_t begin, int64_t end) {
    alignas(64) char gathered[kRun * 8], results[kRun * 8];
    for (int64_t i = begin; i < end; ++i) {
      const auto [s, t] = walk.offsets(i / pieces);
      const int64_t first = i % pieces * kRun, count = std::min(kRun, inner.size - first);
      const char* run_source = from + (s + first * inner.source) * from_bytes;
      char* run_target = to + (t + first * inner.target) * to_bytes;
      if (inner.source != 1) gather_bytes(run_source, inner.source, gathered, from_bytes, count);
      run(inner.source == 1 ? run_source : gathered, inner.target == 1 ? run_target : results, count);
      if (inner.target != 1) scatter_bytes(results, run_target, inner.target, to_bytes, count);
    }
  });
}

}  // namespace

/// Sizes are equal (an expanded source has strides 0). Source and target share no memory. Floating to integer truncates; to
/// bool: "is not zero"; to halves: rounded once, to nearest even.
void copy(const Context&, const View& source, const View& target) {
  if (target.numel() == 0) return;
  const Walk walk(source, target);
  if (source.dtype == target.dtype)
    move_any(walk, item_size(target.dtype), source.data, target.data);
  else
    convert(walk, source, target);
}

}  // namespace deckle::kernels::cpu
