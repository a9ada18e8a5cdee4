// Deckle's side of the benchmark of small tensors, the same lines as libtorch_contender.cpp.

#include "deckle/deckle.h"
#include "serve.h"

namespace {

using deckle::Tensor;

Tensor chain(const Tensor& x, const Tensor& y) {
  Tensor value = x;
  for (int i = 0; i < 20; ++i) value = value * y;
  return deckle::sum(value);
}

}  // namespace

int main() {
  const Tensor a = deckle::rand({8}), b = deckle::rand({8}), m = deckle::rand({8, 8}), n = deckle::rand({8, 8});
  const Tensor leaf = deckle::rand({8}).requires_grad_(), matrix = deckle::rand({8, 8}).requires_grad_();
  const Tensor row = deckle::rand({1, 64}), weight = deckle::rand({64, 64}), bias = deckle::rand({64});
  small_tensors::serve({
      {"mul", [&] { (void)(a * b); }},
      {"mul_recorded", [&] { (void)(leaf * b); }},
      {"sum", [&] { (void)deckle::sum(a); }},
      {"softmax", [&] { (void)deckle::softmax(m, 1); }},
      {"transpose", [&] { (void)deckle::transpose(m, 0, 1); }},
      {"select", [&] { (void)deckle::select(m, 0, 3); }},
      {"matmul_8x8", [&] { (void)deckle::matmul(m, n); }},
      {"matmul_8x8_recorded", [&] { (void)deckle::matmul(matrix, n); }},
      {"linear_1x64", [&] { (void)deckle::linear(row, weight, bias); }},
      {"chain_of_20_and_backward", [&] { (void)deckle::grad({chain(leaf, b)}, {leaf}); }},
      {"matmul_and_backward", [&] { (void)deckle::grad({deckle::sum(deckle::matmul(matrix, n))}, {matrix}); }},
  });
}
