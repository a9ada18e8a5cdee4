// Answers the requests of `run` on standard input, one a line, with one line of JSON each (harness/contender.py).
#include <chrono>
#include <functional>
#include <iostream>
#include <numeric>
#include <string>
#include <vector>

#include "deckle/deckle.h"
#include "empty_kernel.h"

namespace {

using namespace deckle;

const Device kGpu = Device::cuda();

struct Case {
  std::string name, unit;  // of `work`
  double work;             // of one call: bytes, every operand read once and every result written once, or operations
  std::function<void()> call;
};

void add_large(std::vector<Case>& cases, DType dtype) {
  const std::string suffix = dtype == DType::float32 ? "" : " " + std::string(name(dtype));
  constexpr int64_t kRows = 1 << 16, kWidth = 1 << 10;
  const double all = static_cast<double>(item_size(dtype)) * kRows * kWidth, wide = 4.0 * kRows * kWidth;
  const DType other = dtype == DType::float32 ? DType::bfloat16 : DType::float32;
  const Tensor x = randn({kRows, kWidth}, {}, kGpu).to(dtype), y = randn({kRows, kWidth}, {}, kGpu).to(dtype);
  const Tensor w = randn({kWidth}, {}, kGpu).to(dtype), b = randn({kWidth}, {}, kGpu).to(dtype);
  const auto add_case = [&](const char* what, double bytes, std::function<void()> call) {
    cases.push_back({what + suffix, "GB/s", bytes, std::move(call)});
  };
  add_case("copy", 2 * all, [=] { clone(x); });
  add_case("add", 3 * all, [=] { add(x, y); });
  add_case("mul by a number", 2 * all, [=] { x * 1.5; });
  add_case("add a row", 2 * all, [=] { add(x, w); });
  add_case("gelu", 2 * all, [=] { gelu(x); });
  add_case("tanh", 2 * all, [=] { tanh(x); });
  add_case("maximum", 3 * all, [=] { maximum(x, y); });
  add_case(dtype == DType::float32 ? "to bfloat16 from float32" : "to float32 from", wide * 1.5, [=] { x.to(other); });
  add_case("sum of all", all, [=] { sum(x); });
  add_case("sum of rows", all, [=] { sum(x, Ints{1}); });
  add_case("sum of columns", all, [=] { sum(x, Ints{0}); });
  add_case("amax of rows", all, [=] { amax(x, Ints{1}); });
  add_case("softmax", 2 * all, [=] { softmax(x, 1); });
  add_case("layer_norm", 2 * all, [=] { layer_norm(x, w, b); });
  add_case("rms_norm", 2 * all, [=] { rms_norm(x, w); });
  const Tensor p = softmax(x, 1), q = log_softmax(x, 1);
  add_case("softmax backward", 3 * all, [=] { softmax_backward(y, p, 1); });
  add_case("log_softmax backward", 3 * all, [=] { log_softmax_backward(y, q, 1); });
  add_case("layer_norm backward", 3 * all, [=] { layer_norm_backward(y, x, w, 1e-5); });
  add_case("rms_norm backward", 3 * all, [=] { rms_norm_backward(y, x, w, 1e-5); });
  add_case("transposed copy", 2 * all, [=] { clone(x.t()); });
}

void add_products(std::vector<Case>& cases) {
  for (const DType dtype : {DType::bfloat16, DType::float32}) {
    constexpr int64_t kSize = 4096;
    const Tensor a = randn({kSize, kSize}, {}, kGpu).to(dtype), b = randn({kSize, kSize}, {}, kGpu).to(dtype);
    cases.push_back({"mm 4096 " + std::string(name(dtype)), "TFLOP/s", 2.0 * kSize * kSize * kSize, [=] { mm(a, b); }});
  }
}

/// Ops on 512 sequences of mean length 58 and width 768, each followed by the same op on the packed values alone.
void add_nested(std::vector<Case>& cases) {
  constexpr int64_t kSequences = 512, kWidth = 768;
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < kSequences; ++i) lengths.push_back(10 + i * 7919 % 97);  // 10 to 106, mean 58
  const int64_t rows = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    const double all = static_cast<double>(item_size(dtype)) * static_cast<double>(rows * kWidth);
    const Tensor x = randn({rows, kWidth}, {}, kGpu).to(dtype), w = randn({kWidth}, {}, kGpu).to(dtype),
                 b = randn({kWidth}, {}, kGpu).to(dtype), m = randn({kWidth, kWidth}, {}, kGpu).to(dtype);
    const NestedTensor n = NestedTensor::from_lengths(x, lengths);
    const std::string suffix = " " + std::string(name(dtype));
    const auto pair = [&](const std::string& what, double bytes, std::function<void()> nested, std::function<void()> dense) {
      cases.push_back({"nested " + what + suffix, "GB/s", bytes, std::move(nested)});
      cases.push_back({"packed " + what + suffix, "GB/s", bytes, std::move(dense)});
    };
    pair(
        "add", 3 * all, [=] { add(n, n); }, [=] { add(x, x); });
    pair(
        "gelu", 2 * all, [=] { gelu(n); }, [=] { gelu(x); });
    pair(
        "layer_norm", 2 * all, [=] { layer_norm(n, w, b); }, [=] { layer_norm(x, w, b); });
    pair(
        "softmax", 2 * all, [=] { softmax(n, -1); }, [=] { softmax(x, -1); });
    pair(
        "linear", 2 * all, [=] { linear(n, m, b); }, [=] { linear(x, m, b); });
  }
}

/// Calls on small tensors, whose cost is the host's.
std::vector<Case> small_cases() {
  const Tensor x = randn({32, 32}, {}, kGpu), y = randn({32, 32}, {}, kGpu);
  const Tensor leaf = randn({32, 32}, {}, kGpu).requires_grad_();
  return {{"empty", "", 0,
           [] {
             empty({32, 32}, DType::float32, kGpu);
           }},
          {"add", "", 0, [=] { add(x, y); }},
          {"add, recorded", "", 0, [=] { add(leaf, y); }},
          {"sum of rows", "", 0, [=] { sum(x, Ints{1}); }},
          {"mm", "", 0, [=] { mm(x, y); }}};
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Seconds of a call: the queue is filled with `calls` of them and, where `whole`, waited for.
double seconds(const Case& each, int calls, bool whole) {
  each.call();
  synchronize(kGpu);
  const double start = now();
  for (int i = 0; i < calls; ++i) each.call();
  if (whole) synchronize(kGpu);
  const double taken = (now() - start) / calls;
  synchronize(kGpu);
  return taken;
}

void list(const std::vector<Case>& cases) {
  const char* comma = "[";
  for (const Case& each : cases) {
    std::cout << comma << R"({"name": ")" << each.name << R"(", "unit": ")" << each.unit << R"(", "work": )" << each.work << "}";
    comma = ", ";
  }
  std::cout << "]" << std::endl;
}

}  // namespace

int main() try {
  std::vector<Case> large;
  {
    const NoGrad no_grad;
    add_large(large, DType::float32);
    add_large(large, DType::bfloat16);
    add_products(large);
    add_nested(large);
  }
  const std::vector<Case> small = small_cases();
  std::string request;
  while (std::cin >> request) {
    const std::vector<Case>& cases = request.ends_with("host") ? small : large;
    if (request == "list" || request == "list_host") {
      list(cases);
    } else if (request == "peak") {
      std::cout << memory_stats(kGpu).peak << std::endl;
    } else if (request == "launch") {  // launch CALLS
      int calls = 0;
      std::cin >> calls;
      std::cout << seconds({"", "", 0, launch_empty_kernel}, calls, false) << std::endl;
    } else {  // time NUMBER CALLS, host NUMBER CALLS
      size_t number = 0;
      int calls = 0;
      std::cin >> number >> calls;
      std::cout << seconds(cases.at(number), calls, request == "time") << std::endl;
    }
  }
} catch (const Error& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
