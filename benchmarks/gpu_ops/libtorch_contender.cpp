// libtorch's host time of calls on small tensors on a GPU, by the names of deckle_contender.cpp; `run` compiles it.
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAFunctions.h>
#include <torch/csrc/autograd/autograd.h>

#include <chrono>
#include <functional>
#include <iostream>
#include <map>
#include <string>

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

int main() {
  const auto options = at::TensorOptions().device(at::kCUDA);
  const at::Tensor x = at::randn({32, 32}, options), y = at::randn({32, 32}, options);
  const at::Tensor leaf = at::randn({32, 32}, options).requires_grad_();
  const std::map<std::string, std::function<void()>> cases = {{"empty",
                                                               [&] {
                                                                 (void)at::empty({32, 32}, options);
                                                               }},
                                                              {"add", [&] { (void)(x + y); }},
                                                              {"add, recorded", [&] { (void)(leaf + y); }},
                                                              {"sum of rows", [&] { (void)at::sum(x, {1}); }},
                                                              {"mm", [&] { (void)at::mm(x, y); }}};
  std::string request;
  while (std::cin >> request) {  // host CALLS NAME
    int calls = 0;
    std::string name;
    std::cin >> calls;
    std::getline(std::cin >> std::ws, name);
    const std::function<void()>& call = cases.at(name);
    call();
    c10::cuda::device_synchronize();
    const double start = now();
    for (int i = 0; i < calls; ++i) call();
    const double taken = (now() - start) / calls;
    c10::cuda::device_synchronize();
    std::cout << taken << std::endl;
  }
}
