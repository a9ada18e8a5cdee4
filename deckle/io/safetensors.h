#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "deckle/core/tensor.h"

namespace deckle::io {

/// Tensors by name: what modules and optimizers give as their state.
using TensorMap = std::map<std::string, Tensor>;
using Metadata = std::map<std::string, std::string>;

/// A safetensors file, checked as a whole when it is opened: header size, JSON, names, dtypes, shapes, and that the byte
/// ranges cover the data exactly, without gaps or overlaps. Tensors of dtypes that Deckle lacks are errors only when read.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);
  ~SafetensorsFile();
  SafetensorsFile(SafetensorsFile&&) noexcept;

  const Metadata& metadata() const;
  std::vector<std::string> names() const;
  bool contains(const std::string& name) const;
  /// A copy on the CPU; an Error(io) if there is no such tensor.
  Tensor read(const std::string& name) const;

 private:
  struct Contents;
  std::unique_ptr<Contents> contents_;
};

/// Writes a safetensors file atomically: afterwards `path` is the complete new file, or what it was before.
/// Tensors of any strides, on any device.
void save(const TensorMap& tensors, const std::filesystem::path& path, const Metadata& metadata = {});

/// The same from braces: an Error if two tensors have one name, of which a map would keep the first.
void save(std::initializer_list<TensorMap::value_type> tensors, const std::filesystem::path& path, const Metadata& metadata = {});

/// All tensors of a safetensors file.
TensorMap load(const std::filesystem::path& path);

}  // namespace deckle::io
