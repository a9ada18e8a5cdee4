// Answers the requests of `run` on standard input, one a line, with one line of JSON each (harness/contender.py).
#include <chrono>
#include <cmath>
#include <iostream>
#include <string>
#include <tuple>
#include <vector>

#include "deckle/deckle.h"

namespace {

using namespace deckle;

constexpr int64_t kSequences = 512, kWidth = 768, kHeads = 12, kDepth = 12, kHidden = 4 * kWidth;
const Device kGpu = Device::cuda();

/// Quantiles of an exponential distribution of mean 58, in a fixed order: 4 to 402 rows, 29.6 thousand in all.
std::vector<int64_t> lengths() {
  std::vector<int64_t> result;
  for (int64_t i = 0; i < kSequences; ++i) {
    const double share = (static_cast<double>(i * 197 % kSequences) + 0.5) / static_cast<double>(kSequences);
    result.push_back(std::max<int64_t>(4, std::lround(-57.8 * std::log1p(-share))));
  }
  return result;
}

/// A layer of a pre-norm encoder: attention over the whole sequence, and two products with a GELU between them.
struct Layer : nn::Module {
  nn::LayerNorm attention_norm{kWidth}, feed_forward_norm{kWidth};
  nn::Linear qkv{kWidth, 3 * kWidth}, out{kWidth, kWidth}, in{kWidth, kHidden}, back{kHidden, kWidth};
  DECKLE_MEMBERS(attention_norm, feed_forward_norm, qkv, out, in, back);

  /// Of the heads of normalised rows; without the bias of `out`.
  Tensor attend(const Tensor& normal, const Ragged& ragged, const Plan& plan) const {
    const std::vector<Tensor> parts = unbind(view(qkv(normal), {-1, 3, kHeads, kWidth / kHeads}), 1);
    const auto part = [&](size_t i) { return NestedTensor(parts[i], ragged); };
    const Tensor attended = attention(part(0), part(1), part(2), {.plan = plan}).values();
    return linear(view(attended, {-1, kWidth}), out.weight);
  }
  /// Without the bias of `back`.
  Tensor feed(const Tensor& normal) const { return linear(bias_gelu(linear(normal, in.weight), in.bias), back.weight); }
};

/// Each residual's sum and the norm behind it, and each bias and the GELU behind it, are one op, which has the biases' gradients.
struct Encoder : nn::Module {
  std::vector<Layer> layers = std::vector<Layer>(kDepth);
  DECKLE_MEMBERS(layers);

  NestedTensor operator()(const NestedTensor& input) const {
    const Ragged& ragged = input.ragged();
    const NestedTensor heads(view(input.values(), {-1, kHeads, kWidth / kHeads}), ragged);
    const Plan plan = attention_plan(heads, heads, heads);
    Tensor x = input.values(), normal = layers.front().attention_norm(x);
    for (size_t i = 0; i < layers.size(); ++i) {
      const Layer& layer = layers[i];
      const nn::LayerNorm& middle = layer.feed_forward_norm;
      std::tie(normal, x) = add_layer_norm(x, layer.attend(normal, ragged, plan), layer.out.bias, middle.weight, middle.bias);
      const Tensor fed = layer.feed(normal);
      if (i + 1 == layers.size()) {
        x = x + (fed + layer.back.bias);
      } else {
        const nn::LayerNorm& next = layers[i + 1].attention_norm;
        std::tie(normal, x) = add_layer_norm(x, fed, layer.back.bias, next.weight, next.bias);
      }
    }
    return NestedTensor(x, ragged);
  }
};

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct Contender {
  Encoder model;
  NestedTensor x;
  Tensor gradient;

  Contender() {
    manual_seed(1);
    model.to(kGpu);
    model.to(DType::bfloat16);
    const Ragged rows = Ragged::from_lengths(lengths());
    x = NestedTensor(randn({rows->rows(), kWidth}, {}, kGpu).to(DType::bfloat16), rows);
    gradient = randn({rows->rows(), kWidth}, {}, kGpu).to(DType::bfloat16);
  }

  void step(bool backwards) const {
    const NestedTensor y = model(x);
    if (backwards) backward(std::vector<Tensor>{y.values()}, {.grad_outputs = {gradient}});
    model.zero_grad();
  }

  /// Of one step; `host` is until the last kernel was given to the device, not until it has run.
  double seconds(int steps, bool backwards, bool host) const {
    step(backwards);
    synchronize(kGpu);
    const double start = now();
    for (int i = 0; i < steps; ++i) step(backwards);
    const double given = now() - start;
    synchronize(kGpu);
    return (host ? given : now() - start) / steps;
  }
};

}  // namespace

int main() try {
  const Contender contender;
  std::string request;
  while (std::cin >> request) {
    int steps = 0;
    if (request == "tokens") {
      std::cout << contender.gradient.size(0) << std::endl;
    } else if (request == "peak") {
      std::cout << memory_stats(kGpu).peak << std::endl;
    } else if (request == "checksum") {  // what both contenders must be near: the mean square of the result
      std::cout << mean(square(contender.model(contender.x).values().to(DType::float32))).item() << std::endl;
    } else {  // time STEPS, forward STEPS, host STEPS
      std::cin >> steps;
      std::cout << contender.seconds(steps, request != "forward", request == "host") << std::endl;
    }
  }
} catch (const Error& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
