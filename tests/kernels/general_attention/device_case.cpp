// The kernels on the current GPU, on copies of a case.
#include "tests/kernels/general_attention/device_case.h"

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <utility>

#include "deckle/kernels/cuda/general_attention/kernels.h"

namespace deckle::testing::general {
namespace {

namespace kernels = deckle::kernels::cuda::general;

void require(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

/// A call whose tensors, metadata and scratch are copies on the device; results go back when it is done.
class OnDevice {
 public:
  explicit OnDevice(const AttentionCase& c) : metadata_(made(c)) {
    const AttentionProblem& p = c.problem;
    const void* const bounds = p.ranges.bounds != nullptr
                                   ? copy(p.ranges.bounds, static_cast<size_t>(metadata_.bound_count()) * sizeof(int32_t))
                                   : nullptr;
    const void* const mask = p.mask.data != nullptr ? copy(p.mask.data, static_cast<size_t>(metadata_.mask_bytes())) : nullptr;
    call_ = metadata_.at(copy(metadata_.bytes().data(), static_cast<size_t>(metadata_.size())),
                         static_cast<const int32_t*>(bounds), mask);
    if (LengthsOnDevice::there) kernels::list_tasks(call_, nullptr);
  }
  ~OnDevice() {
    for (void* block : blocks_) cudaFree(block);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  const kernels::Call& call() const { return call_; }
  AttentionOperands in(const Operands& x) {
    AttentionOperands view = x.view;
    for (auto [buffer, data] : parts(x, view)) *data = *data == nullptr ? nullptr : copy(buffer->data(), bytes(*buffer));
    return view;
  }
  AttentionResults in(const Results& y) {
    AttentionResults view = y.view;
    if (view.out.data != nullptr) view.out.data = copy(y.out.data(), bytes(y.out));
    if (view.lse != nullptr) view.lse = copy(y.lse.data(), bytes(y.lse));
    return view;
  }
  AttentionOperands out(const Operands& x) {
    AttentionOperands view = in(x);
    for (auto [buffer, data] : parts(x, view)) wanted_.push_back({buffer, *data});
    return view;
  }
  AttentionResults out(const Results& y) {
    AttentionResults view = in(y);
    wanted_.push_back({&y.out, view.out.data});
    wanted_.push_back({&y.lse, view.lse});
    return view;
  }
  /// Poisoned.
  void* scratch(int64_t size) {
    return copy(std::vector<std::byte>(static_cast<size_t>(size), std::byte{0xff}).data(), static_cast<size_t>(size));
  }
  void finish() {
    require(cudaDeviceSynchronize());
    for (const auto& [buffer, data] : wanted_) {
      if (data != nullptr && buffer->data() != nullptr)
        require(cudaMemcpy(buffer->data(), data, bytes(*buffer), cudaMemcpyDeviceToHost));
    }
  }

 private:
  kernels::Metadata made(const AttentionCase& c) {
    const AttentionProblem& p = c.problem;
    if (!LengthsOnDevice::there) return kernels::Metadata(p);
    const auto there = [&](const int64_t* offsets) {
      return static_cast<const int64_t*>(copy(offsets, static_cast<size_t>(p.sequences + 1) * sizeof(int64_t)));
    };
    return kernels::Metadata(in_room(p, there(p.q_offsets), there(p.k_offsets)),
                             p.q_offsets[p.sequences] + LengthsOnDevice::kSpare,
                             p.k_offsets[p.sequences] + LengthsOnDevice::kSpare);
  }
  static size_t bytes(const Buffer& buffer) { return static_cast<size_t>(buffer.count() * item_size(buffer.dtype())); }
  static std::vector<std::pair<const Buffer*, void**>> parts(const Operands& x, AttentionOperands& view) {
    return {{&x.q, &view.q.data},      {&x.k, &view.k.data},    {&x.v, &view.v.data},   {&x.bias, &view.bias.data},
            {&x.slopes, &view.slopes}, {&x.sinks, &view.sinks}, {&x.table, &view.table}};
  }
  void* copy(const void* from, size_t size) {
    void* block = nullptr;
    require(cudaMalloc(&block, size + 256));
    blocks_.push_back(block);
    if (size > 0) require(cudaMemcpy(block, from, size, cudaMemcpyHostToDevice));
    return block;
  }

  std::vector<void*> blocks_;
  kernels::Metadata metadata_;
  kernels::Call call_;
  std::vector<std::pair<const Buffer*, void*>> wanted_;
};

}  // namespace

std::string why_not() {
  int devices = 0;
  return cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0 ? "" : "needs a GPU of compute capability 8.0 or newer";
}

void forward(const AttentionCase& c, const Operands& x, const Results& y) {
  OnDevice device(c);
  kernels::forward(device.call(), device.in(x), device.out(y), nullptr);
  device.finish();
}
void backward(const AttentionCase& c, const Operands& x, const Results& y, const Results& dy, const Operands& dx) {
  OnDevice device(c);
  const AttentionOperands gradient = device.out(dx);
  kernels::backward(device.call(), device.in(x), device.in(y), device.in(dy), gradient,
                    device.scratch(kernels::backward_bytes(device.call(), gradient)), nullptr);
  device.finish();
}
void jvp(const AttentionCase& c, const Operands& x, const Operands& t, const Results& ty) {
  OnDevice device(c);
  const AttentionResults tangent = device.out(ty);
  kernels::jvp(device.call(), device.in(x), device.in(t), {.rounded_tangent = tangent.out, .lse_tangent = tangent.lse}, nullptr);
  device.finish();
}
void second(const AttentionCase& c, const Operands& x, const Operands& t, const Results& y, const Results& dy, const Results& tdy,
            const Operands& tdx, const Results& ty) {
  OnDevice device(c);
  const AttentionOperands gradient = device.out(tdx);
  kernels::second(device.call(), device.in(x), device.in(t), device.in(y), device.in(dy), device.in(tdy), gradient,
                  device.out(ty), device.scratch(kernels::second_bytes(device.call(), gradient)), nullptr);
  device.finish();
}
void mixed(const AttentionCase& c, const Operands& x, const Operands& a, const Operands& b, const Operands& ab,
           const Results& y) {
  OnDevice device(c);
  kernels::mixed(device.call(), device.in(x), device.in(a), device.in(b), device.in(ab), device.out(y),
                 device.scratch(kernels::mixed_bytes(device.call())), nullptr);
  device.finish();
}

}  // namespace deckle::testing::general
