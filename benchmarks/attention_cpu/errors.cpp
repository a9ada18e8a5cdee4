#include "benchmarks/attention_cpu/errors.h"

#include <fmt/format.h>

#include <fstream>

#include "deckle/attention/attention.h"
#include "deckle/autograd/backward.h"
#include "deckle/core/tensor_impl.h"

namespace deckle::benchmarks {

int write_results(const std::string& folder) {
  int64_t sizes[4];
  std::string dtype_name;
  bool causal = false;
  std::ifstream shape(folder + "/shape");
  if (!(shape >> sizes[0] >> sizes[1] >> sizes[2] >> sizes[3] >> dtype_name >> causal)) {
    fmt::print(stderr, "{}/shape: expected B S H D dtype causal\n", folder);
    return 1;
  }
  const DType dtype = dtype_name == "bfloat16" ? DType::bfloat16 : DType::float32;
  const auto read = [&](const char* name) {
    Tensor x = empty(sizes, dtype);
    std::ifstream(folder + "/" + name, std::ios::binary).read(static_cast<char*>(x.raw_data()), x.numel() * item_size(dtype));
    return x;
  };
  const auto write = [&](const char* name, const Tensor& x) {
    std::ofstream(folder + "/" + name, std::ios::binary)
        .write(static_cast<const char*>(x.raw_data()), x.numel() * item_size(dtype));
  };
  const Tensor q = read("q").requires_grad_(), k = read("k").requires_grad_(), v = read("v").requires_grad_();
  const Tensor out = attention(q, k, v, {.mask = causal ? AttentionMask(masks::causal()) : masks::full()});
  out.backward(read("dout"));
  write("out", out.detach());
  write("dq", q.grad());
  write("dk", k.grad());
  write("dv", v.grad());
  return 0;
}

}  // namespace deckle::benchmarks
