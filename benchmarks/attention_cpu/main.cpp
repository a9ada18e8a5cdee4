// Rates of CPU attention through the public API, results allocated by each call.
//   attention_cpu_benchmark [--cpu-time] [--turn SECONDS]     answers lines on standard input with one line of JSON each:
//     peak DTYPE SECONDS                                      GF/s, for so long, of the unit that products of the dtype run on
//     rate DTYPE HEADS DIM CAUSAL WHAT LENGTHS                GF/s of one turn; LENGTHS: COUNT*LENGTH, or ragged:MEAN
//     bandwidth BYTES                                         GB/s of memory of that size, by a loop that only reads
//     decode DTYPE KV_HEADS LENGTHS                           one step of decoding: tokens and GB/s of keys and values, and
//                                                             their bytes
//   attention_cpu_benchmark --lengths MEAN                    the lengths of the ragged batch of that mean
//   attention_cpu_benchmark --errors FOLDER                   out, dq, dk, dv of the inputs that errors.py wrote there
// WHAT: forward, backward, jvp, second (the double backward), each also as NAME_dropout and NAME_bias where it has these.
// --cpu-time: one thread and its processor time in place of the wall clock.
// FLOPs: 2 (D + Dv) per score that a row sees, times 2.5 backward, 4 for the JVP with its primal, 8 for the double backward.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>
#include <functional>
#include <random>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "benchmarks/attention_cpu/errors.h"
#include "benchmarks/harness/serve.h"
#include "deckle/attention/attention.h"
#include "deckle/autograd/backward.h"
#include "deckle/base/check.h"
#include "deckle/base/cpu_cap.h"
#include "deckle/base/parallel.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/functional/transforms.h"
#include "deckle/kernels/cpu/simd/peak_rate.h"
#include "deckle/ops/generated/factory.h"

namespace {

using namespace deckle;

bool use_cpu_time = false;
double turn_seconds = 0.15;

double now() {
  if (!use_cpu_time) return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Median seconds of the calls of one turn after one to warm up: three or more, or as many as three turns have time for.
double seconds(const std::function<void()>& call) {
  call();
  std::vector<double> times;
  double total = 0;
  while (times.empty() || (times.size() < 3 && total < 3 * turn_seconds) || (times.size() < 200 && total < turn_seconds)) {
    const double start = now();
    call();
    times.push_back(now() - start);
    total += times.back();
  }
  std::nth_element(times.begin(), times.begin() + static_cast<int64_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

std::vector<int64_t> log_normal_lengths(double mean, int64_t tokens) {
  std::mt19937_64 random(7);
  const double sigma = 0.8;
  std::lognormal_distribution<double> lengths(std::log(mean) - sigma * sigma / 2, sigma);
  std::vector<int64_t> result;
  for (int64_t left = tokens; left > 0; left -= result.back()) {
    result.push_back(std::clamp<int64_t>(std::llround(lengths(random)), 1, left));
  }
  return result;
}

std::vector<int64_t> parse_lengths(const std::string& text) {
  if (text.starts_with("ragged:")) return log_normal_lengths(std::stod(text.substr(7)), 12288);
  const size_t star = text.find('*');
  return std::vector<int64_t>(std::stoull(text.substr(0, star)), std::stoll(text.substr(star + 1)));
}

/// The largest value is 1.7, the variance about 1; pytorch_contender.py draws its operands and cotangents alike.
Tensor random_tensor(std::vector<int64_t> sizes, DType dtype, uint32_t seed) {
  Tensor x = empty(sizes, dtype);
  std::minstd_rand generator(seed);
  std::uniform_real_distribution<float> uniform(-1.7f, 1.7f);
  visit_floating(dtype, [&]<typename T>(TypeTag<T>) {
    for (T& each : std::span(x.data<T>(), static_cast<size_t>(x.numel()))) each = static_cast<T>(uniform(generator));
  });
  return x;
}

DType parse_dtype(const std::string& text) {
  for (DType candidate : {DType::float16, DType::bfloat16, DType::float32, DType::float64}) {
    if (name(candidate) == text) return candidate;
  }
  fail("dtype is '{}' (expected float16, bfloat16, float32 or float64)", text);
}

/// One batch and all that is measured on it. Batches of equal lengths are dense tensors, others nested ones.
class Batch {
 public:
  Batch(DType dtype, int64_t heads, int64_t dim, bool causal, std::vector<int64_t> lengths)
      : lengths_(std::move(lengths)), dim_(dim) {
    const int64_t longest = *std::max_element(lengths_.begin(), lengths_.end());
    int64_t tokens = 0;
    for (int64_t n : lengths_) {
      tokens += n;
      pairs_ += static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(heads) * (causal ? 0.5 : 1);
    }
    dense_ = std::all_of(lengths_.begin(), lengths_.end(), [&](int64_t n) { return n == lengths_[0]; });
    const std::vector<int64_t> sizes =
        dense_ ? std::vector<int64_t>{std::ssize(lengths_), longest, heads, dim} : std::vector<int64_t>{tokens, heads, dim};
    for (uint32_t i = 0; i < 3; ++i) {
      x_.push_back(random_tensor(sizes, dtype, 1 + i));
      tangents_.push_back(random_tensor(sizes, dtype, 11 + i));
    }
    gradient_ = random_tensor(sizes, dtype, 5);
    bias_ = random_tensor({1, 1, longest, longest}, dtype, 15);
    if (causal) options_.mask = masks::causal();
  }

  double rate(const std::string& what) {
    AttentionOptions options = options_;
    std::vector<Tensor> x = x_;
    const bool biased = what.ends_with("_bias");
    if (what.ends_with("_dropout")) options.dropout = 26.0 / 256;
    if (biased) options.bias = bias_.detach();
    const std::string pass = what.substr(0, what.find('_'));
    const auto record = [&] {
      for (Tensor& each : x) each = each.detach().requires_grad_();
      if (biased) options.bias.requires_grad_();
    };
    std::vector<Tensor> inputs;
    const double flops = 4.0 * pairs_ * static_cast<double>(dim_) / 1e9;
    if (pass == "forward") return flops / seconds([&] { run(x, options); });
    if (pass == "backward") {
      record();
      inputs = x;
      if (biased) inputs.push_back(options.bias);
      const Tensor out = run(x, options);
      return 2.5 * flops / seconds([&] { grad({out}, inputs, {.grad_outputs = {gradient_}, .retain_graph = true}); });
    }
    if (pass == "jvp") {
      return 4 * flops / seconds([&] {
               jvp([&](const std::vector<Tensor>& y) { return std::vector<Tensor>{run(y, options)}; }, x, tangents_);
             });
    }
    check(pass == "second", "nothing is called '{}'", what);
    record();
    Tensor gradient = gradient_.detach().requires_grad_();
    inputs = x;
    inputs.push_back(gradient);
    const std::vector<Tensor> gradients = grad({run(x, options)}, x, {.grad_outputs = {gradient}, .create_graph = true});
    return 8 * flops / seconds([&] { grad(gradients, inputs, {.grad_outputs = tangents_, .retain_graph = true}); });
  }

 private:
  Tensor run(const std::vector<Tensor>& x, const AttentionOptions& options) const {
    if (dense_) return attention(x[0], x[1], x[2], options);
    const auto nested = [&](const Tensor& values) { return NestedTensor::from_lengths(values, lengths_); };
    return attention(nested(x[0]), nested(x[1]), nested(x[2]), options).values();
  }

  std::vector<int64_t> lengths_;
  int64_t dim_;
  bool dense_;
  double pairs_ = 0;
  std::vector<Tensor> x_, tangents_;
  Tensor gradient_, bias_;
  AttentionOptions options_;
};

/// One step of decoding: a query row of each sequence against its keys, 8 heads on `kv_heads` of width 64.
std::string decode(DType dtype, int64_t kv_heads, const std::vector<int64_t>& lengths) {
  constexpr int64_t kHeads = 8, kDim = 64;
  int64_t keys = 0;
  for (int64_t n : lengths) keys += n;
  const auto sequences = std::ssize(lengths);
  const NestedTensor q = NestedTensor::from_lengths(random_tensor({sequences, kHeads, kDim}, dtype, 1),
                                                    std::vector<int64_t>(lengths.size(), 1)),
                     k = NestedTensor::from_lengths(random_tensor({keys, kv_heads, kDim}, dtype, 2), lengths),
                     v = NestedTensor::from_lengths(random_tensor({keys, kv_heads, kDim}, dtype, 3), lengths);
  const double time = seconds([&] { attention(q, k, v, {.mask = masks::causal()}); });
  const double bytes = 2.0 * static_cast<double>(keys * kv_heads * kDim * item_size(dtype));
  return fmt::format("{{\"tokens_per_second\": {:.1f}, \"gigabytes_per_second\": {:.2f}, \"bytes\": {:.0f}}}",
                     static_cast<double>(sequences) / time, bytes / time / 1e9, bytes);
}

/// GB/s of all threads that read memory of a size, of one turn. A thread has the same part in every call, what its own caches
/// hold of it from them; parallel_for gives a part to whoever comes first.
double bandwidth(int64_t bytes) {
  constexpr int64_t kLine = 64, kLinesOfWord = kLine / 8;
  static Tensor memory;  // turns on one size follow each other
  const int64_t lines = bytes / kLine;
  if (!memory.defined() || memory.numel() != lines * kLinesOfWord) memory = full({lines * kLinesOfWord}, 1, DType::int64);
  const kernels::cpu::simd::ReadLoop read = kernels::cpu::simd::read_loop();
  check(read != nullptr, "no loop that reads is written for this processor");
  const char* const begin_of = static_cast<const char*>(memory.raw_data());
  const double time = seconds([&] {
#pragma omp parallel num_threads(num_threads())
    {
      const int64_t part = omp_get_thread_num(), parts = omp_get_num_threads();
      const int64_t first = lines * part / parts, last = lines * (part + 1) / parts;
      read(begin_of + first * kLine, last - first);
    }
  });
  return static_cast<double>(lines * kLine) / time / 1e9;
}

/// GF/s of all threads, for so long, on the unit that products of the dtype run on.
double peak(DType dtype, double seconds) {
  using namespace kernels::cpu::simd;
  const Bf16Arithmetic products = dtype == DType::bfloat16 ? bf16_arithmetic() : Bf16Arithmetic::widened;
  const PeakLoop loop = products == Bf16Arithmetic::tiles      ? tiles_peak_loop()
                        : products == Bf16Arithmetic::pair_dot ? pair_dot_peak_loop()
                                                               : float32_peak_loop();
  const double rate = peak_rate(loop, seconds, now) / 1e9;
  return dtype == DType::float64 ? rate / 2 : rate;
}

std::string answer(const std::string& request, std::istringstream& words) {
  static std::string kept_setting;
  static std::unique_ptr<Batch> batch;  // turns on one batch follow each other
  std::string dtype, what, lengths;
  int64_t heads = 0, dim = 0;
  bool causal = false;
  words >> dtype;
  if (request == "peak") {
    double seconds = 0;
    check(static_cast<bool>(words >> seconds), "cannot read '{}'", words.str());
    return fmt::format("{{\"gflops\": {:.1f}}}", peak(parse_dtype(dtype), seconds));
  }
  if (request == "bandwidth") return fmt::format("{{\"gigabytes_per_second\": {:.2f}}}", bandwidth(std::stoll(dtype)));
  if (request == "decode") {
    words >> heads >> lengths;
    return decode(parse_dtype(dtype), heads, parse_lengths(lengths));
  }
  words >> heads >> dim >> causal >> what >> lengths;
  check(request == "rate" && words, "cannot read '{}'", words.str());
  const std::string setting = fmt::format("{} {} {} {} {}", dtype, heads, dim, causal, lengths);
  if (setting != kept_setting) batch = std::make_unique<Batch>(parse_dtype(dtype), heads, dim, causal, parse_lengths(lengths));
  kept_setting = setting;
  return fmt::format("{{\"gflops\": {:.2f}}}", batch->rate(what));
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (!std::strcmp(argv[i], "--errors") && i + 1 < argc) return benchmarks::write_results(argv[i + 1]);
    if (!std::strcmp(argv[i], "--lengths") && i + 1 < argc) {
      fmt::print("{}\n", fmt::join(log_normal_lengths(std::atof(argv[i + 1]), 12288), " "));
      return 0;
    }
    if (!std::strcmp(argv[i], "--turn") && i + 1 < argc) turn_seconds = std::atof(argv[++i]);
    if (!std::strcmp(argv[i], "--cpu-time")) use_cpu_time = true, set_num_threads(1);
  }
  benchmarks::serve(answer);
}
