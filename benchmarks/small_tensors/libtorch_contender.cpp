// libtorch's side of the benchmark of small tensors; `run` compiles it. dense_ops asks it for what is left of a call of PyTorch
// without Python: gradients_of_eleven is for that alone.

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "serve.h"

namespace {

using at::Tensor;

Tensor chain(const Tensor& x, const Tensor& y) {
  Tensor value = x;
  for (int i = 0; i < 20; ++i) value = value * y;
  return at::sum(value);
}

}  // namespace

int main() {
  const Tensor a = at::rand({8}), b = at::rand({8}), m = at::rand({8, 8}), n = at::rand({8, 8});
  const Tensor leaf = at::rand({8}).requires_grad_(), matrix = at::rand({8, 8}).requires_grad_();
  std::vector<Tensor> eleven{leaf};  // as many as dense_ops asks gradients for
  for (int i = 0; i < 10; ++i) eleven.push_back(at::rand({8}).requires_grad_());
  const Tensor product = leaf * b, cotangent = product.detach().clone();
  const Tensor row = at::rand({1, 64}), weight = at::rand({64, 64}), bias = at::rand({64});
  small_tensors::serve({
      {"mul", [&] { (void)(a * b); }},
      {"mul_recorded", [&] { (void)(leaf * b); }},
      {"sum", [&] { (void)at::sum(a); }},
      {"softmax", [&] { (void)at::softmax(m, 1); }},
      {"transpose", [&] { (void)at::transpose(m, 0, 1); }},
      {"select", [&] { (void)at::select(m, 0, 3); }},
      {"matmul_8x8", [&] { (void)at::matmul(m, n); }},
      {"matmul_8x8_recorded", [&] { (void)at::matmul(matrix, n); }},
      {"linear_1x64", [&] { (void)at::linear(row, weight, bias); }},
      {"chain_of_20_and_backward", [&] { (void)torch::autograd::grad({chain(leaf, b)}, {leaf}); }},
      {"gradients_of_eleven", [&] { (void)torch::autograd::grad({product}, eleven, {cotangent}, true, false, true); }},
      {"matmul_and_backward", [&] { (void)torch::autograd::grad({at::sum(at::matmul(matrix, n))}, {matrix}); }},
  });
}
