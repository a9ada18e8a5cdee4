#include "tools/deckle/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>

#include "deckle/base/aligned_block.h"
#include "deckle/base/cpu_cap.h"
#include "deckle/base/parallel.h"
#include "deckle/kernels/cpu/simd/peak_rate.h"

namespace deckle::cli {
namespace {

using kernels::cpu::simd::PeakLoop;

template <typename F>
double seconds(F&& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// GF/s: the best of several runs of 10 ms.
double peak(const PeakLoop& loop) {
  const auto now = [] { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); };
  double best = 0;
  for (int repeat = 0; repeat < 15; ++repeat) best = std::max(best, kernels::cpu::simd::peak_rate(loop, 0.01, now) / 1e9);
  return best;
}

/// Copies far more than the caches hold.
double copy_rate() {
  constexpr size_t kBytes = size_t{256} << 20;
  constexpr int64_t kPieces = 256;
  const std::unique_ptr<void, void (*)(void*)> from(aligned_block(kBytes, kHugePage), std::free),
      to(aligned_block(kBytes, kHugePage), std::free);
  if (from == nullptr || to == nullptr) return 0;
  const auto piece = [&](void* memory, int64_t n) {
    return static_cast<char*>(memory) + static_cast<size_t>(n) * (kBytes / kPieces);
  };
  parallel_for(kPieces, 1, [&](int64_t n, int64_t) { std::memset(piece(from.get(), n), 1, kBytes / kPieces); });
  double best = 0;
  for (int repeat = 0; repeat < 4; ++repeat) {
    const double time = seconds([&] {
      parallel_for(kPieces, 1,
                   [&](int64_t n, int64_t) { std::memcpy(piece(to.get(), n), piece(from.get(), n), kBytes / kPieces); });
    });
    best = std::max(best, 2 * static_cast<double>(kBytes) / time / 1e9);
  }
  return best;
}

std::string rate_line(const char* what, double rate, double float32) {
  if (rate == 0) return fmt::format("  {:<22} not here\n", what);
  return fmt::format("  {:<22} {:8.1f} GF/s   {:5.2f} x float32\n", what, rate, rate / float32);
}

std::string cache(int level) {
  const int64_t bytes = cache_bytes(level);
  return bytes == 0 ? "?" : bytes % (1 << 20) == 0 ? fmt::format("{} MB", bytes >> 20) : fmt::format("{} kB", bytes >> 10);
}

}  // namespace

MachineRates measure_machine() {
  return {peak(kernels::cpu::simd::float32_peak_loop()), peak(kernels::cpu::simd::pair_dot_peak_loop()),
          peak(kernels::cpu::simd::tiles_peak_loop()), copy_rate()};
}

std::string describe_machine(const MachineRates& rates, bool forced) {
  const CpuInfo& info = cpu_info();
  const CpuFamily family = cpu_family(info);
  const Bf16Arithmetic chosen = bf16_arithmetic();
  std::string text =
      fmt::format("{} family {} model {}: {}; {}{}; {}; caches {}, {}, {}\n", info.vendor, info.family, info.model, family.name,
                  name(info.isa), cpu_isa() != info.isa ? fmt::format(" (DECKLE_CPU: {})", name(cpu_isa())) : "",
                  num_threads() == 1 ? "1 thread" : fmt::format("{} threads", num_threads()), cache(1), cache(2), cache(3));
  text += rate_line("float32 FMA", rates.float32, rates.float32);
  text += rate_line("bfloat16 pair dot", rates.pair_dot, rates.float32);
  text += rate_line("bfloat16 AMX tiles", rates.tiles, rates.float32);
  text += fmt::format("  {:<22} {:8.1f} GB/s   read and written\n", "copy", rates.copy);
  if (info.isa == CpuIsa::amx_bf16 && !amx_granted()) text += "the system refuses the use of AMX tiles\n";
  text += fmt::format("bfloat16 is multiplied in: {}\n", name(chosen));

  // The fastest arithmetic here, by a margin above the noise.
  const double rate_of[] = {rates.float32, rates.pair_dot, rates.tiles};
  const double chosen_rate = rate_of[static_cast<int>(chosen)];
  const auto best = static_cast<int>(std::max_element(std::begin(rate_of), std::end(rate_of)) - std::begin(rate_of));
  if (forced) {
    text += "DECKLE_CPU forces that, not the table\n";
  } else if (std::count(std::begin(rate_of), std::end(rate_of), 0.0) >= 2) {
    text += "no other unit here to compare it with\n";
  } else if (rate_of[best] > 1.3 * chosen_rate) {
    text += fmt::format("the table is wrong here: {} is {:.1f} times as fast\n", name(static_cast<Bf16Arithmetic>(best)),
                        rate_of[best] / chosen_rate);
  } else {
    text += "the measurement agrees with the table\n";
  }
  return text;
}

}  // namespace deckle::cli
