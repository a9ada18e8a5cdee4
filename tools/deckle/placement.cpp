#include "tools/deckle/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "deckle/base/cpu_cap.h"
#include "deckle/base/parallel.h"
#include "deckle/core/allocator.h"
#include "deckle/core/cuda/device.h"
#include "tools/deckle/numbers.h"

namespace deckle::cli {

namespace {

constexpr int kMostGpus = 1024;

/// The number of "cuda" or "cuda:1"; -1: neither.
int gpu_number(const std::string& name) {
  if (name == "cuda") return 0;
  if (!name.starts_with("cuda:")) return -1;
  int number = -1;
  const char* const end = name.data() + name.size();
  const auto [last, error] = std::from_chars(name.data() + 5, end, number);
  return error == std::errc() && last == end && number < kMostGpus ? number : -1;
}

}  // namespace

std::string why_no_device(const std::string& name) {
  return name == "cpu" || name == "auto" || gpu_number(name) >= 0 ? ""
                                                                  : name + " (expected cpu, cuda, cuda:1 or the like, or auto)";
}

std::string why_no_dtype(const std::string& name) {
  return name == "float32" || name == "bf16" || name == "auto" ? "" : name + " (expected float32, bf16 or auto)";
}

Device choose_device(const std::string& name) {
  if (name == "cpu" || (name == "auto" && cuda::device_count() == 0)) return {};
  const Device device = Device::cuda(std::max(gpu_number(name), 0));
  cuda::require(device);
  return device;
}

DType choose_dtype(const std::string& name, Device device) {
  // DECKLE_CPU may force an arithmetic that the processor has but is slow at.
  const Bf16Arithmetic bf16 = bf16_arithmetic();
  const bool forced = asked_isa() != nullptr && bf16 != cpu_family(cpu_info()).bf16;
  const bool faster = device.is_cuda() || (bf16 != Bf16Arithmetic::widened && !forced);
  return name == "bf16" || (name == "auto" && faster) ? DType::bfloat16 : DType::float32;
}

std::optional<DType> autocast_for(DType dtype) { return dtype == DType::float32 ? std::nullopt : std::optional<DType>(dtype); }

std::string placement_text(DType dtype, Device device) {
  const std::string bf16 = dtype == DType::bfloat16 ? ", bf16" : "";
  if (device.is_cuda()) return to_string(device) + bf16;
  const std::string by = bf16.empty() ? name(cpu_isa()) : name(bf16_arithmetic());
  return fmt::format("{} ({}){}", count_text(num_threads(), "thread"), by, bf16);
}

int64_t memory_in_use(Device device) { return device.is_cuda() ? memory_stats(device).in_use : memory_in_use(); }
int64_t peak_memory(Device device) { return device.is_cuda() ? memory_stats(device).peak : peak_memory(); }

}  // namespace deckle::cli
