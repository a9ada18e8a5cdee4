// The Euclidean norm of each tensor of a list, and the products of two lists.                                 Sums in double
//
//   launches   two for up to 96 tensors: parts of them all, then what the parts of each come to
//   parts      a block each, of 4,096 elements or more, at most 1,024 of a tensor: its size decides, not the list, and where
//              it begins decides how it is loaded alone
//   bytes      the elements once, the floor; of each part 24 (norms) or 8 are written and read, 0.3 % of 4,096 elements of
//   float32
#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <type_traits>

#include "deckle/base/error.h"
#include "deckle/core/cuda/memory.h"
#include "deckle/kernels/cuda/reduce/kinds.cuh"

namespace deckle::kernels::cuda {
namespace {

constexpr int kTensors = 96, kThreads = 256;
constexpr int64_t kShortest = 4096, kMostParts = 1024;

struct Lists {
  const void* data[2][kTensors];
  int64_t numel[kTensors];
  int first_part[kTensors + 1];
  DType dtype[kTensors];
  bool vectors[kTensors];  // the elements of both lists start at 16 bytes
  int tensors;
};
static_assert(sizeof(Lists) < 4000, "a kernel's parameters are at most 4 KiB");

int64_t parts_of(int64_t numel) { return std::clamp<int64_t>(numel / kShortest, 1, kMostParts); }

/// Elements [begin, end) of a part: one behind another, each but the last as long, all from a vector's first element on.
struct Range {
  int64_t begin, end;

  __device__ Range(int64_t numel, int64_t parts, int64_t part) {
    const int64_t length = ((numel + parts - 1) / parts + pointwise::kWidth - 1) / pointwise::kWidth * pointwise::kWidth;
    begin = min(part * length, numel);
    end = min(begin + length, numel);
  }
};

/// Which tensor a part is of.
__device__ int tensor_of(const Lists& lists, int part) {
  int low = 0, high = lists.tensors;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (lists.first_part[middle] <= part ? low : high) = middle;
  }
  return low;
}

/// A kind of sums takes an element of each of its lists along: doubles as they are, other dtypes as floats.
struct Squares : reduce::Length {
  static constexpr int kLists = 1;

  __device__ void choose(int) {}
  __device__ void take(Acc& acc, const double (&x)[1]) const { add(acc, x[0], 0); }
  __device__ void take(Acc& acc, const float (&x)[1]) const { acc.usual += static_cast<double>(x[0]) * x[0]; }  // all are usual
  __device__ void finish(const Acc& acc, DType, double* result) const {
    Length::finish(acc, 0, {{result, DType::float64}, {}}, 0);
  }
};

/// Of doubles every first factor is divided, of other dtypes the sum.
template <bool kDivides>
struct Products : reduce::Sum<double> {
  static constexpr int kLists = 2;
  const void* divisors = nullptr;  // a number for each tensor
  DType of_divisors = DType::float64;
  double divisor = 1;

  __device__ void choose(int tensor) {
    if constexpr (kDivides) divisor = pointwise::load<double>(divisors, of_divisors, tensor);
  }
  __device__ void take(double& acc, const double (&x)[2]) const { acc += (kDivides ? x[0] / divisor : x[0]) * x[1]; }
  __device__ void take(double& acc, const float (&x)[2]) const { acc += static_cast<double>(x[0]) * x[1]; }
  __device__ void finish(double acc, DType dtype, double* result) const {
    *result = kDivides && dtype != DType::float64 ? acc / divisor : acc;
  }
};

/// Eight elements of each list as they lie in memory.
template <typename V, int kLists>
struct Vectors {
  pointwise::Raw<V> raw[kLists];
};
template <typename V, int kLists, int kCount>
struct Elements {
  V x[kLists][kCount];
};

template <class K, typename V, int kCount>
__device__ __forceinline__ void take_all(const K& kind, typename K::Acc& acc, const V (&x)[K::kLists][kCount]) {
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    V each[K::kLists];
#pragma unroll
    for (int list = 0; list < K::kLists; ++list) each[list] = x[list][k];
    kind.take(acc, each);
  }
}

/// A thread takes the same elements wherever the tensor begins: eight at a time, in one load where they start at 16 bytes. So
/// bits do not depend on that.
template <typename V, class K>
__device__ void add_part(const K& kind, typename K::Acc& acc, const Lists& lists, int tensor, const Range& range) {
  constexpr int kWidth = pointwise::kWidth, kLists = K::kLists;
  const DType dtype = lists.dtype[tensor];
  const int64_t item = item_size(dtype);
  const auto thread = static_cast<int>(threadIdx.x);
  const int64_t first = range.begin + thread * kWidth, whole = range.begin + (range.end - range.begin) / kWidth * kWidth;
  const auto add_elements = [&]<int kCount>(std::integral_constant<int, kCount>, int64_t begin, int64_t end) {
    reduce::in_batches<kCount == 1 ? 4 : 1>(
        begin, end, kThreads * kCount,
        [&](int64_t i) {
          Elements<V, kLists, kCount> loaded;
#pragma unroll
          for (int list = 0; list < kLists; ++list)
#pragma unroll
            for (int k = 0; k < kCount; ++k) loaded.x[list][k] = pointwise::load<V>(lists.data[list][tensor], dtype, i + k);
          return loaded;
        },
        [&](const auto& loaded, int64_t) {
#pragma unroll
          for (int u = 0; u < std::extent_v<std::remove_reference_t<decltype(loaded)>>; ++u) take_all(kind, acc, loaded[u].x);
        });
  };
  if (lists.vectors[tensor]) {
    reduce::in_batches<sizeof(V) == 8 ? 1 : 4 / kLists>(
        first, whole, kThreads * kWidth,
        [&](int64_t i) {
          Vectors<V, kLists> loaded;
#pragma unroll
          for (int list = 0; list < kLists; ++list)
            loaded.raw[list] = pointwise::load_raw<V>(static_cast<const char*>(lists.data[list][tensor]) + i * item, dtype);
          return loaded;
        },
        [&](const auto& loaded, int64_t) {
#pragma unroll
          for (int u = 0; u < std::extent_v<std::remove_reference_t<decltype(loaded)>>; ++u) {
            V x[kLists][kWidth];
#pragma unroll
            for (int list = 0; list < kLists; ++list) pointwise::decode_raw<V>(loaded[u].raw[list], dtype, x[list]);
            take_all(kind, acc, x);
          }
        });
  } else {
    add_elements(std::integral_constant<int, kWidth>(), first, whole);
  }
  add_elements(std::integral_constant<int, 1>(), whole + thread, range.end);
}

/// Block i adds up part i of all: parts[i].
template <class K>
__global__ void __launch_bounds__(kThreads) add_parts(const __grid_constant__ Lists lists, K kind, typename K::Acc* parts) {
  __shared__ typename K::Acc shared[kThreads];
  const auto part = static_cast<int>(blockIdx.x);
  const int tensor = tensor_of(lists, part), first = lists.first_part[tensor];
  const Range range(lists.numel[tensor], lists.first_part[tensor + 1] - first, part - first);
  kind.choose(tensor);
  typename K::Acc acc = kind.start();
  if (lists.dtype[tensor] == DType::float64)
    add_part<double>(kind, acc, lists, tensor, range);
  else
    add_part<float>(kind, acc, lists, tensor, range);
  acc = reduce::merge_threads<K, kThreads>(kind, acc, shared);
  if (threadIdx.x == 0) parts[part] = acc;
}

/// Block i merges the parts of tensor i, of which a thread takes neighbours.
template <class K>
__global__ void __launch_bounds__(kThreads)
    merge_parts(const __grid_constant__ Lists lists, K kind, const typename K::Acc* parts, double* results) {
  __shared__ typename K::Acc shared[kThreads];
  const auto tensor = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x);
  const int first = lists.first_part[tensor], count = lists.first_part[tensor + 1] - first;
  const int each = (count + kThreads - 1) / kThreads;
  kind.choose(tensor);
  typename K::Acc acc = kind.start();
  for (int i = thread * each; i < min((thread + 1) * each, count); ++i) acc = kind.merge(acc, parts[first + i]);
  acc = reduce::merge_threads<K, kThreads>(kind, acc, shared);
  if (thread == 0) kind.finish(acc, lists.dtype[tensor], results + tensor);
}

bool at_vector(const View& view) { return reinterpret_cast<uintptr_t>(view.data) % 16 == 0; }

/// kind_of(first tensor) for up to kTensors tensors at a time, which are contiguous.
template <class K, class KindOf>
void run(const Context& context, const std::array<std::span<const View>, K::kLists>& all, const View& result,
         const KindOf& kind_of) {
  const deckle::cuda::DeviceGuard guard(context.device);
  const cudaStream_t stream = deckle::cuda::stream_handle(context.device);
  for (size_t first = 0; first < all[0].size(); first += kTensors) {
    Lists lists{};
    lists.tensors = static_cast<int>(std::min<size_t>(kTensors, all[0].size() - first));
    for (int i = 0; i < lists.tensors; ++i) {
      const size_t at = first + static_cast<size_t>(i);
      lists.numel[i] = all[0][at].numel();
      lists.dtype[i] = all[0][at].dtype;
      lists.vectors[i] = true;
      for (size_t list = 0; list < all.size(); ++list) {
        lists.data[list][i] = all[list][at].data;
        lists.vectors[i] = lists.vectors[i] && at_vector(all[list][at]);
      }
      lists.first_part[i + 1] = lists.first_part[i] + static_cast<int>(parts_of(lists.numel[i]));
    }
    const int count = lists.first_part[lists.tensors];
    const K kind = kind_of(first);
    const deckle::cuda::Block memory(count * static_cast<int64_t>(sizeof(typename K::Acc)), context.device);
    auto* const parts = memory.as<typename K::Acc>();
    add_parts<K><<<static_cast<unsigned>(count), kThreads, 0, stream>>>(lists, kind, parts);
    merge_parts<K>
        <<<static_cast<unsigned>(lists.tensors), kThreads, 0, stream>>>(lists, kind, parts, result.ptr<double>() + first);
    deckle::cuda::check_launch(context.device);
  }
}

void require_pairs(std::span<const View> self, std::span<const View> other) {
  for (size_t i = 0; i < self.size(); ++i) {
    const View &x = self[i], &y = other[i];
    if (x.ndim != y.ndim || !std::equal(x.sizes, x.sizes + x.ndim, y.sizes) || x.dtype != y.dtype)
      throw Error("the tensors " + std::to_string(i) + " of the lists differ in shape or dtype (expected the same)");
  }
}

}  // namespace

void foreach_norm(const Context& context, std::span<const View> self, const View& result) {
  run<Squares>(context, {self}, result, [](size_t) { return Squares(); });
}

void foreach_dot(const Context& context, std::span<const View> self, std::span<const View> other, const View& result) {
  require_pairs(self, other);
  run<Products<false>>(context, {self, other}, result, [](size_t) { return Products<false>(); });
}

void foreach_dot_over(const Context& context, std::span<const View> self, std::span<const View> other, const View& divisor,
                      const View& result) {
  require_pairs(self, other);
  run<Products<true>>(context, {self, other}, result, [&](size_t first) {
    Products<true> kind;
    kind.divisors = static_cast<const char*>(divisor.data) + static_cast<int64_t>(first) * item_size(divisor.dtype);
    kind.of_divisors = divisor.dtype;
    return kind;
  });
}

}  // namespace deckle::kernels::cuda
