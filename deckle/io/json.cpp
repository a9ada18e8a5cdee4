#include "deckle/io/json.h"

#include <nlohmann/json.hpp>
#include <set>

#include "deckle/base/check.h"

namespace deckle::io {

namespace {

using Json = nlohmann::json;

/// Parses and refuses keys that an object has twice, of which the package would silently keep one.
Json parse_json(std::string_view text) {
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  std::optional<std::string> repeated;
  const auto watch = [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second && !repeated) {
      repeated = value.get<std::string>();
    }
    return true;
  };
  try {
    Json json = Json::parse(text.begin(), text.end(), watch);
    if (repeated) fail(ErrorKind::io, "the key \"{}\" occurs twice", *repeated);
    return json;
  } catch (const Json::parse_error& error) {
    fail(ErrorKind::io, "not valid JSON (at byte {})", error.byte);
  } catch (const Json::exception&) {
    fail(ErrorKind::io, "not valid JSON (a number or text out of range)");
  }
}

const Json& part(const Json& object, const std::string& tensor, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) fail(ErrorKind::io, "tensor \"{}\" has no \"{}\"", tensor, key);
  return *found;
}

std::vector<uint64_t> naturals(const Json& list, const std::string& tensor, const char* key) {
  const bool valid =
      list.is_array() && std::all_of(list.begin(), list.end(), [](const Json& v) { return v.is_number_unsigned(); });
  if (!valid) fail(ErrorKind::io, "\"{}\" of tensor \"{}\" is no list of non-negative integers below 2^64", key, tensor);
  return list.get<std::vector<uint64_t>>();
}

TensorEntry read_entry(const std::string& name, const Json& object) {
  if (!object.is_object()) fail(ErrorKind::io, "tensor \"{}\" is described by no object", name);
  for (const auto& [key, value] : object.items()) {
    if (key != "dtype" && key != "shape" && key != "data_offsets")
      fail(ErrorKind::io, "tensor \"{}\" has the unknown part \"{}\"", name, key);
  }
  TensorEntry entry;
  entry.name = name;
  const Json& dtype = part(object, name, "dtype");
  if (!dtype.is_string()) fail(ErrorKind::io, "\"dtype\" of tensor \"{}\" is no string", name);
  entry.dtype = dtype.get<std::string>();
  entry.shape = naturals(part(object, name, "shape"), name, "shape");
  const std::vector<uint64_t> offsets = naturals(part(object, name, "data_offsets"), name, "data_offsets");
  if (offsets.size() != 2)
    fail(ErrorKind::io, "\"data_offsets\" of tensor \"{}\" has {} numbers (expected 2)", name, offsets.size());
  entry.begin = offsets[0];
  entry.end = offsets[1];
  return entry;
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view text) {
  const Json json = parse_json(text);
  if (!json.is_object()) fail(ErrorKind::io, "the header is no JSON object");
  SafetensorsHeader header;
  for (const auto& [name, value] : json.items()) {
    if (name != "__metadata__") {
      header.tensors.push_back(read_entry(name, value));
      continue;
    }
    if (!value.is_object()) fail(ErrorKind::io, "\"__metadata__\" is no object");
    for (const auto& [key, item] : value.items()) {
      if (!item.is_string()) fail(ErrorKind::io, "\"__metadata__\" has a value for \"{}\" that is no string", key);
      header.metadata[key] = item.get<std::string>();
    }
  }
  return header;
}

std::string to_json(const SafetensorsHeader& header) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!header.metadata.empty()) json["__metadata__"] = header.metadata;
  for (const TensorEntry& entry : header.tensors) {
    json[entry.name] = {{"dtype", entry.dtype}, {"shape", entry.shape}, {"data_offsets", {entry.begin, entry.end}}};
  }
  try {
    return json.dump();
  } catch (const Json::exception&) {
    fail("a tensor's name or a metadata text is not valid UTF-8 (expected UTF-8)");
  }
}

std::optional<std::string> json_string_field(std::string_view line, const std::string& field) {
  const Json json = parse_json(line);
  if (!json.is_object()) fail(ErrorKind::io, "expected a JSON object");
  const auto found = json.find(field);
  if (found == json.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

}  // namespace deckle::io
