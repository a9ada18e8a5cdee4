#pragma once

#include <cstdint>
#include <string>

namespace deckle {

enum class DeviceKind : uint8_t { cpu, cuda };

/// Where a tensor lives: "cpu", or "cuda:0".
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int16_t index = 0;

  /// The GPU of that number. Whether there is one is asked when memory is taken on it.
  static constexpr Device cuda(int index = 0) {
    return {DeviceKind::cuda, index == static_cast<int16_t>(index) ? static_cast<int16_t>(index) : int16_t{-1}};
  }
  bool is_cpu() const { return kind == DeviceKind::cpu; }
  bool is_cuda() const { return kind == DeviceKind::cuda; }

  friend bool operator==(const Device&, const Device&) = default;
};

inline std::string to_string(Device device) {
  return device.kind == DeviceKind::cpu ? "cpu" : "cuda:" + std::to_string(device.index);
}

}  // namespace deckle
