#pragma once

#include <cstdint>
#include <string>

namespace deckle {

enum class DeviceKind : uint8_t { cpu, cuda };

/// Where a tensor lives: "cpu", or "cuda:0".
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int16_t index = 0;

  friend bool operator==(const Device&, const Device&) = default;
};

inline std::string to_string(Device device) {
  return device.kind == DeviceKind::cpu ? "cpu" : "cuda:" + std::to_string(device.index);
}

}  // namespace deckle
