// The kernels as plain C++, on the host.
#include "tests/kernels/general_attention/device_case.h"

#include "deckle/kernels/cuda/general_attention/kernels.h"

namespace deckle::testing::general {
namespace {

namespace kernels = deckle::kernels::cuda::general;

/// A call on memory of its own.
struct OnHost {
  kernels::Metadata metadata;
  kernels::Call call;
  std::vector<std::byte> workspace, lists;

  explicit OnHost(const AttentionCase& c) : metadata(made(c)), lists(metadata.bytes()) {
    if (LengthsOnDevice::there) lists.assign(lists.size(), std::byte{0xff});
    call = metadata.at(lists.data(), c.problem.ranges.bounds, c.problem.mask.data);
    if (LengthsOnDevice::there) kernels::list_tasks(call, nullptr);
  }
  static kernels::Metadata made(const AttentionCase& c) {
    const AttentionProblem& p = c.problem;
    if (!LengthsOnDevice::there) return kernels::Metadata(p);
    return kernels::Metadata(in_room(p, p.q_offsets, p.k_offsets), p.q_offsets[p.sequences] + LengthsOnDevice::kSpare,
                             p.k_offsets[p.sequences] + LengthsOnDevice::kSpare);
  }
  void* scratch(int64_t bytes) {
    workspace.assign(static_cast<size_t>(bytes), std::byte{0xff});
    return workspace.data();
  }
};

}  // namespace

std::string why_not() { return {}; }

void forward(const AttentionCase& c, const Operands& x, const Results& y) {
  OnHost host(c);
  kernels::forward(host.call, x.view, y.view, nullptr);
}
void backward(const AttentionCase& c, const Operands& x, const Results& y, const Results& dy, const Operands& dx) {
  OnHost host(c);
  kernels::backward(host.call, x.view, y.view, dy.view, dx.view, host.scratch(kernels::backward_bytes(host.call, dx.view)),
                    nullptr);
}
void jvp(const AttentionCase& c, const Operands& x, const Operands& t, const Results& ty) {
  OnHost host(c);
  kernels::jvp(host.call, x.view, t.view, {.rounded_tangent = ty.view.out, .lse_tangent = ty.view.lse}, nullptr);
}
void second(const AttentionCase& c, const Operands& x, const Operands& t, const Results& y, const Results& dy, const Results& tdy,
            const Operands& tdx, const Results& ty) {
  OnHost host(c);
  kernels::second(host.call, x.view, t.view, y.view, dy.view, tdy.view, tdx.view, ty.view,
                  host.scratch(kernels::second_bytes(host.call, tdx.view)), nullptr);
}
void mixed(const AttentionCase& c, const Operands& x, const Operands& a, const Operands& b, const Operands& ab,
           const Results& y) {
  OnHost host(c);
  kernels::mixed(host.call, x.view, a.view, b.view, ab.view, y.view, host.scratch(kernels::mixed_bytes(host.call)), nullptr);
}

}  // namespace deckle::testing::general
