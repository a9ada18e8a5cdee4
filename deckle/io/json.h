#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace deckle::io {

/// One tensor as a safetensors header describes it; nothing is checked against the data yet.
struct TensorEntry {
  std::string name;
  std::string dtype;
  std::vector<uint64_t> shape;
  uint64_t begin = 0;  // bytes, from the end of the header
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::map<std::string, std::string> metadata;
  std::vector<TensorEntry> tensors;
};

/// Reads the header's JSON; throws Error(io) for bad syntax, missing or unknown parts, and repeated keys.
SafetensorsHeader parse_safetensors_header(std::string_view json);

std::string to_json(const SafetensorsHeader& header);

/// The string at key `field` of the JSON object in `line`; nothing if the key is missing or is no string, Error(io) if the
/// line is no JSON object.
std::optional<std::string> json_string_field(std::string_view line, const std::string& field);

}  // namespace deckle::io
