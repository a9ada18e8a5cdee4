// The steps of the list ops: every tensor of the lists in one launch, up to 48 tensors at a time.     Each operand is read once
//   adamw, sgd, sgd_momentum, add, mul, scale, addcmul, addcdiv, sqrt, copy: the arithmetic of the CPU's steps
// Instances: float (float32 and the halves) and double, chosen for each tensor.
#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/error.h"
#include "deckle/core/cuda/memory.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cuda/pointwise/operand.cuh"

namespace deckle::kernels::cuda {
namespace {

using List = std::span<const View>;

constexpr int kTensors = 48, kThreads = 256, kElements = 4;  // elements of a thread
constexpr int64_t kPiece = kThreads * kElements;             // of a block

struct Lists {
  void* data[4][kTensors];
  int64_t numel[kTensors];
  int64_t first_block[kTensors + 1];
  DType dtype[kTensors];
  int tensors;
};

struct Numbers {
  double at[6];
};

struct Adamw {  // parameter, average, square, gradient; step size, beta1, beta2, epsilon, decay, scale of the square's root
  static constexpr int kRead = 4, kWritten = 3;
  template <typename T>
  __device__ static void step(T (&x)[4], const Numbers& n) {
    const T gradient = x[3];
    x[1] = T(n.at[1]) * x[1] + T(1 - n.at[1]) * gradient;
    x[2] = T(n.at[2]) * x[2] + T(1 - n.at[2]) * (gradient * gradient);
    x[0] = x[0] * T(n.at[4]) - T(n.at[0]) * (x[1] / (::sqrt(x[2]) * T(n.at[5]) + T(n.at[3])));
  }
};

struct SgdMomentum {  // parameter, velocity, gradient; lr, momentum, weight decay, 1 - dampening, nesterov
  static constexpr int kRead = 3, kWritten = 2;
  template <typename T>
  __device__ static void step(T (&x)[4], const Numbers& n) {
    const T gradient = T(n.at[2]) * x[0] + x[2];
    x[1] = T(n.at[1]) * x[1] + T(n.at[3]) * gradient;
    x[0] -= T(n.at[0]) * (n.at[4] != 0 ? T(n.at[1]) * x[1] + gradient : x[1]);
  }
};

struct Sgd {  // parameter, gradient; lr, weight decay
  static constexpr int kRead = 2, kWritten = 1;
  template <typename T>
  __device__ static void step(T (&x)[4], const Numbers& n) {
    x[0] -= T(n.at[0]) * (T(n.at[1]) * x[0] + x[1]);
  }
};

struct Add {
  static constexpr int kRead = 2, kWritten = 1;
  template <typename T>
  __device__ static void step(T (&x)[4], const Numbers& n) {
    x[0] += T(n.at[0]) * x[1];
  }
};

struct Mul {
  static constexpr int kRead = 2, kWritten = 1;
  template <typename T>
  __device__ static void step(T (&x)[4], const Numbers&) {
    x[0] *= x[1];
  }
};

struct Scale {
  static constexpr int kRead = 1, kWritten = 1;
  template <typename T>
  __device__ static void step(T (&x)[4], const Numbers& n) {
    x[0] *= T(n.at[0]);
  }
};

struct Addcmul {
  static constexpr int kRead = 3, kWritten = 1;
  template <typename T>
  __device__ static void step(T (&x)[4], const Numbers& n) {
    x[0] += T(n.at[0]) * (x[1] * x[2]);
  }
};

struct Addcdiv {
  static constexpr int kRead = 3, kWritten = 1;
  template <typename T>
  __device__ static void step(T (&x)[4], const Numbers& n) {
    x[0] += T(n.at[0]) * (x[1] / x[2]);
  }
};

struct Sqrt {
  static constexpr int kRead = 1, kWritten = 1;
  template <typename T>
  __device__ static void step(T (&x)[4], const Numbers&) {
    x[0] = ::sqrt(x[0]);
  }
};

struct Copy {
  static constexpr int kRead = 2, kWritten = 1, kFirstRead = 1;  // what it writes may never have been written
  template <typename T>
  __device__ static void step(T (&x)[4], const Numbers&) {
    x[0] = x[1];
  }
};

/// The first list that a step reads.
template <class Step>
constexpr int first_read() {
  if constexpr (requires { Step::kFirstRead; })
    return Step::kFirstRead;
  else
    return 0;
}

template <class Step, typename T>
__device__ void piece(const Lists& lists, int tensor, int64_t begin, const Numbers& numbers) {
  const DType dtype = lists.dtype[tensor];
  T x[kElements][4];
#pragma unroll
  for (int k = 0; k < kElements; ++k) {
    const int64_t i = begin + k * kThreads + threadIdx.x;
    if (i >= lists.numel[tensor]) break;
#pragma unroll
    for (int list = first_read<Step>(); list < Step::kRead; ++list)
      x[k][list] = pointwise::load<T>(lists.data[list][tensor], dtype, i);
  }
#pragma unroll
  for (int k = 0; k < kElements; ++k) {
    const int64_t i = begin + k * kThreads + threadIdx.x;
    if (i >= lists.numel[tensor]) break;
    Step::step(x[k], numbers);
#pragma unroll
    for (int list = 0; list < Step::kWritten; ++list) pointwise::store(x[k][list], lists.data[list][tensor], dtype, i);
  }
}

/// The numbers of a step whose count lies on the device, and whether it is left out.
struct Counted {
  Numbers numbers;
  int skipped;
};

__global__ void count_step(double* counter, const uint8_t* skip, double beta1, double beta2, double epsilon, double weight_decay,
                           Counted* result) {
  result->skipped = skip != nullptr && *skip != 0;
  if (result->skipped != 0) return;
  const double lr = counter[0], t = counter[1] += 1;
  result->numbers = {{lr / (1 - ::pow(beta1, t)), beta1, beta2, epsilon, 1 - lr * weight_decay, 1 / ::sqrt(1 - ::pow(beta2, t))}};
}

template <class Step>
__device__ void take_step(const Lists& lists, const Numbers& numbers);

template <class Step>
__global__ void __launch_bounds__(kThreads) counted_steps(const __grid_constant__ Lists lists, const Counted* counted) {
  if (counted->skipped == 0) take_step<Step>(lists, counted->numbers);
}

template <class Step>
__global__ void __launch_bounds__(kThreads) steps(const __grid_constant__ Lists lists, const __grid_constant__ Numbers numbers) {
  take_step<Step>(lists, numbers);
}

/// With a number of the device.
template <class Step>
__global__ void __launch_bounds__(kThreads) steps_by(const __grid_constant__ Lists lists, const double* number) {
  take_step<Step>(lists, {{*number}});
}

template <class Step>
__device__ void take_step(const Lists& lists, const Numbers& numbers) {
  int tensor = 0;
  while (lists.first_block[tensor + 1] <= blockIdx.x) ++tensor;
  const int64_t begin = (blockIdx.x - lists.first_block[tensor]) * kPiece;
  if (lists.dtype[tensor] == DType::float64)
    piece<Step, double>(lists, tensor, begin, numbers);
  else
    piece<Step, float>(lists, tensor, begin, numbers);
}

/// `launch(lists, blocks, stream)` for up to kTensors tensors at a time.
template <class Step, class Launch>
void for_lists(const Context& context, const std::array<List, Step::kRead>& lists, const Launch& launch) {
  const deckle::cuda::DeviceGuard guard(context.device);
  for (size_t first = 0; first < lists[0].size(); first += kTensors) {
    Lists some{};
    some.tensors = static_cast<int>(std::min<size_t>(kTensors, lists[0].size() - first));
    for (int i = 0; i < some.tensors; ++i) {
      const size_t at = first + static_cast<size_t>(i);
      for (size_t list = 0; list < lists.size(); ++list) some.data[list][i] = lists[list][at].data;
      some.numel[i] = lists[0][at].numel();
      some.dtype[i] = lists[0][at].dtype;
      some.first_block[i + 1] = some.first_block[i] + (some.numel[i] + kPiece - 1) / kPiece;
    }
    const int64_t blocks = some.first_block[some.tensors];
    if (blocks == 0) continue;
    launch(some, static_cast<unsigned>(blocks), deckle::cuda::stream_handle(context.device));
    deckle::cuda::check_launch(context.device);
  }
}

template <class Step>
void run(const Context& context, const std::array<List, Step::kRead>& lists, const Numbers& numbers) {
  for_lists<Step>(context, lists, [&](const Lists& some, unsigned blocks, cudaStream_t stream) {
    steps<Step><<<blocks, kThreads, 0, stream>>>(some, numbers);
  });
}

}  // namespace

void foreach_adamw(const Context& context, List parameters, List gradients, List averages, List squares, double lr, double beta1,
                   double beta2, double epsilon, double weight_decay, int64_t step) {
  const double t = static_cast<double>(step);
  run<Adamw>(
      context, {parameters, averages, squares, gradients},
      {{lr / (1 - std::pow(beta1, t)), beta1, beta2, epsilon, 1 - lr * weight_decay, 1 / std::sqrt(1 - std::pow(beta2, t))}});
}
void foreach_adamw_counted(const Context& context, List parameters, List gradients, List averages, List squares,
                           const View& counter, const View& skip, double beta1, double beta2, double epsilon,
                           double weight_decay) {
  const deckle::cuda::DeviceGuard guard(context.device);
  const deckle::cuda::Block counted(static_cast<int64_t>(sizeof(Counted)), context.device);
  count_step<<<1, 1, 0, deckle::cuda::stream_handle(context.device)>>>(counter.ptr<double>(),
                                                                       skip.defined ? skip.ptr<uint8_t>() : nullptr, beta1, beta2,
                                                                       epsilon, weight_decay, counted.as<Counted>());
  for_lists<Adamw>(context, {parameters, averages, squares, gradients},
                   [&](const Lists& some, unsigned blocks, cudaStream_t stream) {
                     counted_steps<Adamw><<<blocks, kThreads, 0, stream>>>(some, counted.as<Counted>());
                   });
  deckle::cuda::check_launch(context.device);
}
void foreach_sgd_momentum(const Context& context, List parameters, List gradients, List velocities, double lr, double momentum,
                          double weight_decay, double dampening, bool nesterov) {
  run<SgdMomentum>(context, {parameters, velocities, gradients},
                   {{lr, momentum, weight_decay, 1 - dampening, nesterov ? 1.0 : 0.0}});
}
void foreach_sgd(const Context& context, List parameters, List gradients, double lr, double weight_decay) {
  run<Sgd>(context, {parameters, gradients}, {{lr, weight_decay}});
}
void foreach_add(const Context& context, List self, List other, double alpha) { run<Add>(context, {self, other}, {{alpha}}); }
void foreach_mul(const Context& context, List self, List other) { run<Mul>(context, {self, other}, {}); }
void foreach_copy(const Context& context, List self, List source) { run<Copy>(context, {self, source}, {}); }
void foreach_scale(const Context& context, List self, double factor) { run<Scale>(context, {self}, {{factor}}); }
void foreach_scale_by(const Context& context, List self, const View& factor) {
  for_lists<Scale>(context, {self}, [&](const Lists& some, unsigned blocks, cudaStream_t stream) {
    steps_by<Scale><<<blocks, kThreads, 0, stream>>>(some, factor.ptr<double>());
  });
}
void foreach_addcmul(const Context& context, List self, List first, List second, double value) {
  run<Addcmul>(context, {self, first, second}, {{value}});
}
void foreach_addcdiv(const Context& context, List self, List numerator, List denominator, double value) {
  run<Addcdiv>(context, {self, numerator, denominator}, {{value}});
}
void foreach_sqrt(const Context& context, List self) { run<Sqrt>(context, {self}, {}); }

}  // namespace deckle::kernels::cuda
