#pragma once

// Reductions over any dims of operands with any strides, in an order that the shape alone decides. A reduction R has
//   Acc            what is kept of the elements so far; Acc R::start()
//   R::add(acc, x, i)    takes element i of a row along, i ascending; R::merge(a, b) two parts of a row, a's elements first
//   R::few(x, y)         if there: two halves as one float, four or eight of which are added at once, if R::holds(few)
//   R::vectors(acc, raw) if there: vector_rows.cuh
//   R::finish(acc, length, outputs, row)   writes the results of a row
// and computes in T: double, which every floating dtype is exact in, or int64.
//
//   rows     one block takes a part of a row, or one warp a whole short row: elements of a row lie close to each other
//            (as vectors, where R takes them)
//   columns  neighbouring threads take neighbouring rows: the rows lie close to each other
// Long rows of few are cut into parts, whose results a second launch merges.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>

#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/error.h"
#include "deckle/core/cuda/memory.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cuda/reduce/behind.cuh"
#include "deckle/kernels/cuda/reduce/columns.cuh"
#include "deckle/kernels/cuda/reduce/vector_rows.cuh"

namespace deckle::kernels::cuda::reduce {

/// Elements [begin, end) of a row by kThreads threads, eight at a time.
template <class R, typename V, int kThreads>
__device__ void add_vectors(const R& reduction, typename R::Acc& acc, const Problem& problem, int64_t start, int64_t begin,
                            int64_t end) {
  constexpr int kWidth = pointwise::kWidth, kTogether = sizeof(V) == 4 ? 4 : 1;
  const char* const data = static_cast<const char*>(problem.data) + start * item_size(problem.dtype);
  const int64_t item = item_size(problem.dtype), whole = begin + (end - begin) / kWidth * kWidth;
  const int lane = static_cast<int>(threadIdx.x) % kThreads;
  in_batches<kTogether>(
      begin + lane * kWidth, whole, kThreads * kWidth,
      [&](int64_t i) { return pointwise::load_raw<V>(data + i * item, problem.dtype); },
      [&](const auto& loaded, int64_t i) {
        constexpr int kCount = std::extent_v<std::remove_reference_t<decltype(loaded)>>;
#pragma unroll
        for (int u = 0; u < kCount; ++u) {
          V x[kWidth];
          pointwise::decode_raw<V>(loaded[u], problem.dtype, x);
          if constexpr (sizeof(V) == 4 && TakesFew<R>) {
            if (problem.dtype != DType::float32) {
              add_few<kWidth>(reduction, acc, i, [&](int k) { return x[k]; });
              continue;
            }
          }
#pragma unroll
          for (int k = 0; k < kWidth; ++k) reduction.add(acc, x[k], i + u * kThreads * kWidth + k);
        }
      });
  for (int64_t i = whole + lane; i < end; i += kThreads) reduction.add(acc, pointwise::load<V>(data, problem.dtype, i), i);
}

/// kThreads threads a row or a part of one. Thread t takes elements t, t + kThreads, ... of each stretch: R's order of elements
/// is that of merge() for what does not mind, and R compares indices where it does.
template <class R, typename T, int kThreads>
__global__ void __launch_bounds__(256) rows_kernel(const __grid_constant__ Problem problem, R reduction, typename R::Acc* parts) {
  using Acc = typename R::Acc;
  __shared__ alignas(alignof(Acc)) char memory[256 * sizeof(Acc)];
  if (problem.parts > 1) arch::launch_dependents();
  const int64_t unit = (static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x) / kThreads;
  const int64_t row = unit / problem.parts, part = unit % problem.parts;
  const bool inside = row < problem.rows;
  Acc acc = reduction.start();
  if (inside) {
    const int64_t start = problem.kept.offset(row), begin = part * problem.part_length,
                  end = min(begin + problem.part_length, problem.length);
    const int lane = static_cast<int>(threadIdx.x) % kThreads;
    bool done = false;
    if constexpr (std::is_same_v<T, double>) {
      done = problem.vectors;
      if (done && problem.dtype == DType::float64)
        add_vectors<R, double, kThreads>(reduction, acc, problem, start, begin, end);
      else if (done)
        add_vectors<R, float, kThreads>(reduction, acc, problem, start, begin, end);
    }
    if (!done) {
      in_batches<4>(
          begin + lane, end, kThreads,
          [&](int64_t i) { return pointwise::load<T>(problem.data, problem.dtype, start + problem.reduced.offset(i)); },
          [&](const auto& x, int64_t i) {
#pragma unroll
            for (int u = 0; u < std::extent_v<std::remove_reference_t<decltype(x)>>; ++u)
              reduction.add(acc, x[u], i + u * kThreads);
          });
    }
  }
  acc = merge_threads<R, kThreads>(reduction, acc, reinterpret_cast<Acc*>(memory));
  if (threadIdx.x % kThreads != 0 || !inside) return;
  if (problem.parts > 1)
    parts[unit] = acc;
  else
    reduction.finish(acc, problem.length, problem.outputs, row);
}

/// The parts of each row, kThreads threads a row: a warp, or a block where there are few rows of many parts, whose loads then
/// are in flight together (of 1024 parts, a warp waits four times for the memory).
template <class R, int kThreads>
__global__ void __launch_bounds__(256)
    parts_kernel(const __grid_constant__ Problem problem, R reduction, const typename R::Acc* parts) {
  using Acc = typename R::Acc;
  __shared__ alignas(alignof(Acc)) char memory[256 * sizeof(Acc)];
  const int64_t row = (static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x) / kThreads;
  const int count = static_cast<int>(problem.parts), lane = static_cast<int>(threadIdx.x) % kThreads;
  Acc acc = reduction.start();
  arch::wait_for_dependencies();
  if (row < problem.rows) {
    const int each = (count + kThreads - 1) / kThreads;  // a lane takes neighbouring parts
    take_loads<8>(
        min(lane * each, count), min((lane + 1) * each, count), 1, [&](int i) { return parts[row * count + i]; },
        [&](const auto& few) {
#pragma unroll
          for (int u = 0; u < std::extent_v<std::remove_reference_t<decltype(few)>>; ++u) acc = reduction.merge(acc, few[u]);
        });
  }
  acc = merge_threads<R, kThreads>(reduction, acc, reinterpret_cast<Acc*>(memory));
  if (lane == 0 && row < problem.rows) reduction.finish(acc, problem.length, problem.outputs, row);
}

inline unsigned blocks_of(int64_t units, int64_t each) { return static_cast<unsigned>((units + each - 1) / each); }

/// Launches vector_rows_kernel, if it serves.
template <class R>
bool as_vectors(const R& reduction, const Problem& problem, typename R::Acc* parts, cudaStream_t stream) {
  const int64_t most = int64_t{1} << 31;
  if constexpr (TakesVectors<R>) {
    // Long rows of float32 are faster without.
    if (!problem.vectors || problem.dtype == DType::float64 || (problem.dtype == DType::float32 && problem.length > 1024) ||
        problem.rows * problem.parts >= most || problem.part_length >= most)
      return false;
    const auto launch = [&](auto element) {
      using E = decltype(element);
      if (problem.length <= 1024)
        vector_rows_kernel<R, E, 32><<<blocks_of(problem.rows, 8), 256, 0, stream>>>(problem, reduction, parts);
      else
        vector_rows_kernel<R, E, 256><<<blocks_of(problem.rows * problem.parts, 1), 256, 0, stream>>>(problem, reduction, parts);
    };
    if (problem.dtype == DType::float32)
      launch(float());
    else if (problem.dtype == DType::bfloat16)
      launch(__nv_bfloat16());
    else
      launch(__half());
    return true;
  }
  return false;
}

/// Reduces `dims` of self (none: all of them).
template <class R, typename T>
void run(const R& reduction, const Context& context, const View& self, std::span<const int64_t> dims, const Outputs& outputs) {
  using Acc = typename R::Acc;
  const Layout layout(self, dims);
  if (layout.rows == 0) return;
  Problem problem;
  problem.data = self.data;
  problem.dtype = self.dtype;
  problem.kept = Places(layout.kept);
  problem.reduced = Places(layout.reduced);
  problem.rows = layout.rows;
  problem.length = problem.part_length = layout.length;
  problem.outputs = outputs;
  const auto last_stride = [](const Layout::Dims& places) { return places.count > 0 ? places.strides[places.count - 1] : 0; };
  const bool columns = layout.kept.count > 0 && last_stride(layout.kept) == 1 && last_stride(layout.reduced) != 1 &&
                       layout.kept.sizes[layout.kept.count - 1] >= 16;
  // Parts: enough work for a large GPU, none shorter than it takes to start. The shape alone decides.
  constexpr int64_t kWanted = 2048, kShortest = 4096, kShortestColumn = 256;
  const int64_t item = item_size(self.dtype);
  // Vectors of columns: every place that a vector starts at is at 16 bytes.
  bool wide = columns && std::is_same_v<T, double> && is_floating(self.dtype) &&
              reinterpret_cast<uintptr_t>(self.data) % 16 == 0 && layout.kept.sizes[layout.kept.count - 1] * item % 16 == 0;
  for (int d = 0; d + 1 < layout.kept.count; ++d) wide = wide && layout.kept.strides[d] * item % 16 == 0;
  for (int d = 0; d < layout.reduced.count; ++d) wide = wide && layout.reduced.strides[d] * item % 16 == 0;
  const int64_t column_rows = kColumnThreads * (wide ? 16 / item : 1);
  const int64_t units = columns ? (layout.rows + column_rows - 1) / column_rows : layout.rows;
  const int64_t shortest = columns ? kShortestColumn : kShortest;
  // Of columns, as many blocks as reside at once on 132 multiprocessors: three each of halves, else four.
  const int64_t wanted = !columns ? kWanted : 132 * (item == 2 ? 3 : 4);
  problem.parts = std::clamp<int64_t>(std::min(wanted / std::max<int64_t>(units, 1), layout.length / shortest), 1, 1024);
  problem.part_length = (layout.length + problem.parts - 1) / problem.parts;
  problem.part_length = (problem.part_length + pointwise::kWidth - 1) / pointwise::kWidth * pointwise::kWidth;
  problem.vectors = is_floating(self.dtype) && layout.reduced.count == 1 && layout.reduced.strides[0] == 1 &&
                    reinterpret_cast<uintptr_t>(self.data) % 16 == 0;
  for (int d = 0; d < layout.kept.count; ++d)
    problem.vectors = problem.vectors && layout.kept.strides[d] * item_size(self.dtype) % 16 == 0;
  const deckle::cuda::DeviceGuard guard(context.device);
  const cudaStream_t stream = deckle::cuda::stream_handle(context.device);
  const deckle::cuda::Block memory(problem.parts > 1 ? problem.rows * problem.parts * static_cast<int64_t>(sizeof(Acc)) : 0,
                                   context.device);
  Acc* const parts = memory.as<Acc>();
  if (columns) {
    const auto launch = [&](auto loads) {
      const dim3 grid(static_cast<unsigned>(units), static_cast<unsigned>(problem.parts));
      columns_kernel<R, T, decltype(loads)><<<grid, dim3(kColumnThreads, kColumnDepth), 0, stream>>>(problem, reduction, parts);
    };
    if constexpr (std::is_same_v<T, double>) {
      if (!wide)
        launch(OneColumn<T>());
      else if (self.dtype == DType::float32)
        launch(Columns<float>());
      else if (self.dtype == DType::bfloat16)
        launch(Columns<__nv_bfloat16>());
      else if (self.dtype == DType::float16)
        launch(Columns<__half>());
      else
        launch(Columns<double>());
    } else {
      launch(OneColumn<T>());
    }
  } else if (as_vectors(reduction, problem, parts, stream)) {
  } else if (layout.length <= 1024) {
    rows_kernel<R, T, 32><<<blocks_of(problem.rows, 8), 256, 0, stream>>>(problem, reduction, parts);
  } else {
    rows_kernel<R, T, 256><<<blocks_of(problem.rows * problem.parts, 1), 256, 0, stream>>>(problem, reduction, parts);
  }
  if (problem.parts > 256)
    launch_behind(&parts_kernel<R, 256>, blocks_of(problem.rows, 1), 256, context.device, stream, problem, reduction, parts);
  else if (problem.parts > 1)
    launch_behind(&parts_kernel<R, 32>, blocks_of(problem.rows, 8), 256, context.device, stream, problem, reduction, parts);
  deckle::cuda::check_launch(context.device);
}

/// The same in the type that self's elements are exact in: make(T()) gives the reduction.
template <typename Make>
void run_exact(const Make& make, const Context& context, const View& self, std::span<const int64_t> dims,
               const Outputs& outputs) {
  if (is_floating(self.dtype))
    run<decltype(make(double())), double>(make(double()), context, self, dims, outputs);
  else
    run<decltype(make(int64_t())), int64_t>(make(int64_t()), context, self, dims, outputs);
}

inline std::span<const int64_t> dims_of(const std::optional<std::span<const int64_t>>& dim) {
  return dim ? *dim : std::span<const int64_t>();
}
inline Output output_of(const View& view) { return {view.data, view.dtype}; }

}  // namespace deckle::kernels::cuda::reduce
