// Rates of the CPU attention kernels as shares of the machine's peak measured in the same run.
//   attention_cpu_benchmark [--dtype float32|bfloat16|...] [--only SUBSTRING] [--repeats N] [--json] [--cpu-time]
//   attention_cpu_benchmark --lengths MEAN      the lengths of the ragged batch of that mean
//   attention_cpu_benchmark --errors FOLDER     out, dq, dk, dv of the inputs that errors.py wrote there
// --cpu-time: one thread and its processor time in place of the wall clock.
// FLOPs: 2 (D + Dv) per score that a row sees, times 2.5 backward, 3 for the JVP, 8 for the double backward (JVP included);
// decoding is counted in tokens and in bytes of keys and values.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "benchmarks/attention_cpu/errors.h"
#include "benchmarks/attention_cpu/machine.h"
#include "deckle/base/parallel.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/kernels/cpu/attention/attention.h"

namespace {

using namespace deckle;

/// Numbers in memory as tensors have it.
struct Data {
  Tensor tensor;

  Data(DType dtype, int64_t count, uint32_t seed, bool random = true) : tensor(empty({count}, dtype)) {
    std::minstd_rand generator(seed);
    std::uniform_real_distribution<float> uniform(-1.7f, 1.7f);  // variance about 1
    visit_floating(dtype, [&]<typename T>(TypeTag<T>) {
      for (int64_t i = 0; i < count; ++i) tensor.data<T>()[i] = static_cast<T>(random ? uniform(generator) : 0.0f);
    });
  }
  void* data() { return tensor.raw_data(); }
};

struct Setting {
  std::string name;
  std::vector<int64_t> lengths;
  int64_t heads, dim;
  bool causal;
};

double pairs(const Setting& s) {
  double sum = 0;
  for (int64_t n : s.lengths)
    sum += s.causal ? 0.5 * static_cast<double>(n) * static_cast<double>(n) : static_cast<double>(n) * static_cast<double>(n);
  return sum * static_cast<double>(s.heads);
}

/// Median seconds of `repeats` calls after one to warm up.
template <typename F>
double seconds(int repeats, F&& call) {
  call();
  std::vector<double> times;
  double total = 0;
  while (static_cast<int>(times.size()) < repeats || (total < 0.2 && times.size() < 200)) {
    const double start = benchmarks::now();
    call();
    times.push_back(benchmarks::now() - start);
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

struct Options {
  DType dtype = DType::float32;
  double peak = 0;
  int repeats = 5;
  bool json = false;
};

void report(const Options& options, const Setting& s, const char* what, double rate) {
  if (options.json) {
    fmt::print(
        "{{\"setting\": \"{}\", \"dtype\": \"{}\", \"D\": {}, \"causal\": {}, \"what\": \"{}\", \"gflops\": {:.2f}, \"peak\": "
        "{:.1f}}}\n",
        s.name, name(options.dtype), s.dim, s.causal, what, rate, options.peak);
  } else {
    fmt::print("{:<16} {:<9} D={:<4} {:<7} {:<22} {:7.1f} GF/s {:5.1f} %\n", s.name, name(options.dtype), s.dim,
               s.causal ? "causal" : "full", what, rate, 100 * rate / options.peak);
  }
  std::fflush(stdout);
}

/// `all` adds the derivatives beyond the backward, and features.
void measure(const Setting& s, const Options& options, bool all) {
  const DType dtype = options.dtype, statistics = dtype == DType::float64 ? DType::float64 : DType::float32;
  std::vector<int64_t> offsets{0};
  for (int64_t n : s.lengths) offsets.push_back(offsets.back() + n);
  const int64_t count = offsets.back() * s.heads * s.dim;
  AttentionProblem p;
  p.dtype = dtype;
  p.sequences = static_cast<int64_t>(s.lengths.size());
  p.heads = p.kv_heads = s.heads;
  p.head_dim = p.value_dim = s.dim;
  p.q_offsets = p.k_offsets = offsets.data();
  p.scale = 1 / std::sqrt(static_cast<double>(s.dim));
  p.causal = s.causal;
  Data q(dtype, count, 1), k(dtype, count, 2), v(dtype, count, 3), out(dtype, count, 4, false), dout(dtype, count, 5);
  Data lse(statistics, offsets.back() * s.heads, 6, false), dq(dtype, count, 7, false), dk(dtype, count, 8, false),
      dv(dtype, count, 9, false);
  const auto rows = [&](Data& d) { return AttentionRows{d.data(), s.heads * s.dim, s.dim}; };
  AttentionOperands x, gradient;
  x.q = rows(q), x.k = rows(k), x.v = rows(v);
  gradient.q = rows(dq), gradient.k = rows(dk), gradient.v = rows(dv);
  const AttentionResults result{rows(out), lse.data()}, cotangent{rows(dout), nullptr};

  const double flops = 4.0 * pairs(s) * static_cast<double>(s.dim) / 1e9;
  const auto forward = [&] { kernels::cpu::attention_forward({}, p, x, result); };
  const auto backward = [&] { kernels::cpu::attention_backward({}, p, x, result, cotangent, gradient); };
  report(options, s, "forward", flops / seconds(options.repeats, forward));
  report(options, s, "backward", 2.5 * flops / seconds(options.repeats, backward));
  if (!all) return;

  Data tq(dtype, count, 10), tk(dtype, count, 11), tv(dtype, count, 12), tout(dtype, count, 13, false),
      tlse(statistics, offsets.back() * s.heads, 14, false);
  AttentionOperands tangent;
  tangent.q = rows(tq), tangent.k = rows(tk), tangent.v = rows(tv);
  const AttentionResults moved{rows(tout), tlse.data()};
  report(options, s, "jvp",
         3 * flops / seconds(options.repeats, [&] { kernels::cpu::attention_jvp({}, p, x, tangent, result, moved); }));
  report(options, s, "double backward", 8 * flops / seconds(options.repeats, [&] {
                                          kernels::cpu::attention_second({}, p, x, tangent, result, cotangent, {}, gradient,
                                                                         moved);
                                        }));

  p.dropout = {.threshold = 26, .seed = 1, .offset = 2};
  report(options, s, "forward, dropout", flops / seconds(options.repeats, forward));
  report(options, s, "backward, dropout", 2.5 * flops / seconds(options.repeats, backward));
  p.dropout = {};
  const int64_t longest = *std::max_element(s.lengths.begin(), s.lengths.end());
  Data bias(dtype, longest * longest, 15), dbias(dtype, longest * longest, 16, false);
  x.bias = {bias.data(), 0, 0, longest, 1};
  gradient.bias = {dbias.data(), 0, 0, longest, 1};
  report(options, s, "forward, bias", flops / seconds(options.repeats, forward));
  report(options, s, "backward, bias + dbias", 2.5 * flops / seconds(options.repeats, backward));
}

/// One step of decoding: a query row of each sequence against its keys, 8 heads on `kv_heads` of width 64.
void measure_decoding(const Options& options, const std::string& name, const std::vector<int64_t>& lengths, int64_t kv_heads) {
  constexpr int64_t kHeads = 8, kDim = 64;
  std::vector<int64_t> q_offsets{0}, k_offsets{0};
  for (int64_t n : lengths) q_offsets.push_back(q_offsets.back() + 1), k_offsets.push_back(k_offsets.back() + n);
  AttentionProblem p;
  p.dtype = options.dtype;
  p.sequences = static_cast<int64_t>(lengths.size());
  p.heads = kHeads, p.kv_heads = kv_heads;
  p.head_dim = p.value_dim = kDim;
  p.q_offsets = q_offsets.data(), p.k_offsets = k_offsets.data();
  p.scale = 0.125;
  p.causal = true;
  Data q(p.dtype, p.sequences * kHeads * kDim, 1), k(p.dtype, k_offsets.back() * kv_heads * kDim, 2),
      v(p.dtype, k_offsets.back() * kv_heads * kDim, 3);
  Data out(p.dtype, p.sequences * kHeads * kDim, 4, false);
  const AttentionOperands x{
      .q = {q.data(), kHeads * kDim, kDim}, .k = {k.data(), kv_heads * kDim, kDim}, .v = {v.data(), kv_heads * kDim, kDim}};
  const double time = seconds(options.repeats, [&] {
    kernels::cpu::attention_forward({}, p, x, {{out.data(), kHeads * kDim, kDim}, nullptr});
  });
  const double bytes = 2.0 * static_cast<double>(k_offsets.back() * kv_heads * kDim * item_size(p.dtype));
  const double tokens = static_cast<double>(p.sequences) / time;
  if (options.json) {
    fmt::print(
        "{{\"setting\": \"{}\", \"dtype\": \"{}\", \"what\": \"decode\", \"tokens_per_second\": {:.1f}, "
        "\"gigabytes_per_second\": {:.2f}}}\n",
        name, deckle::name(p.dtype), tokens, bytes / time / 1e9);
  } else {
    fmt::print("{:<40} {:<9} {:10.0f} tokens/s {:6.1f} GB/s\n", name, deckle::name(p.dtype), tokens, bytes / time / 1e9);
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  std::string only, dtype_name = "float32";
  Options options;
  for (int i = 1; i < argc; ++i) {
    if (!std::strcmp(argv[i], "--only") && i + 1 < argc) only = argv[++i];
    if (!std::strcmp(argv[i], "--dtype") && i + 1 < argc) dtype_name = argv[++i];
    if (!std::strcmp(argv[i], "--repeats") && i + 1 < argc) options.repeats = std::atoi(argv[++i]);
    if (!std::strcmp(argv[i], "--json")) options.json = true;
    if (!std::strcmp(argv[i], "--errors") && i + 1 < argc) return benchmarks::write_results(argv[i + 1]);
    if (!std::strcmp(argv[i], "--lengths") && i + 1 < argc) {
      fmt::print("{}\n", fmt::join(log_normal_lengths(std::atof(argv[i + 1]), 12288), " "));
      return 0;
    }
    if (!std::strcmp(argv[i], "--cpu-time")) benchmarks::use_cpu_time = true, set_num_threads(1);
  }
  for (DType candidate : {DType::float16, DType::bfloat16, DType::float32, DType::float64}) {
    if (name(candidate) == dtype_name) options.dtype = candidate;
  }
  const double single = benchmarks::float32_peak(), dot = benchmarks::bfloat16_peak();
  options.peak = options.dtype == DType::float64 ? single / 2 : options.dtype == DType::bfloat16 && dot > 0 ? dot : single;
  if (!options.json) fmt::print("{} threads; FMA peak {:.1f} GF/s float32, bf16 dot peak {:.1f}\n", num_threads(), single, dot);

  std::vector<Setting> settings;
  for (int64_t dim : {64, 128}) {
    for (bool causal : {false, true}) {
      for (int64_t length : {128, 512, 2048, 8192}) {
        const int64_t sequences = std::max<int64_t>(1, 4096 / length), heads = length == 8192 ? 2 : 8;
        settings.push_back({fmt::format("S={}", length), std::vector<int64_t>(sequences, length), heads, dim, causal});
      }
    }
  }
  for (int64_t length : {40, 128}) {  // in cache: what the kernel itself costs
    for (bool causal : {false, true}) settings.push_back({fmt::format("one S={}", length), {length}, 1, 64, causal});
  }
  for (int64_t mean : {40, 300, 1200}) {
    for (bool causal : {false, true}) {
      settings.push_back(
          {fmt::format("ragged mean {}", mean), log_normal_lengths(static_cast<double>(mean), 12288), 8, 64, causal});
      settings.push_back({fmt::format("dense S={}", mean), std::vector<int64_t>(12288 / mean, mean), 8, 64, causal});
    }
  }
  for (const Setting& s : settings) {
    if (only.empty() ||
        (s.name + (s.causal ? " causal" : " full") + fmt::format(" D={}", s.dim)).find(only) != std::string::npos) {
      measure(s, options, s.name == "S=512" || s.name == "S=2048");
    }
  }
  const std::vector<std::pair<std::string, std::vector<int64_t>>> caches = {
      {"decode one text of 8192", {8192}},
      {"decode 16 texts of 1024", std::vector<int64_t>(16, 1024)},
      {"decode ragged, mean 1200", log_normal_lengths(1200, 24576)}};
  for (const auto& [name, lengths] : caches) {
    for (int64_t kv_heads : {8, 2}) {
      const std::string setting = fmt::format("{}, {} key heads", name, kv_heads);
      if (setting.find(only) != std::string::npos) measure_decoding(options, setting, lengths, kv_heads);
    }
  }
}
