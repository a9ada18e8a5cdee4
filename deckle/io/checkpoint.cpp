#include "deckle/io/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <optional>

#include "deckle/base/check.h"
#include "deckle/io/file.h"

namespace deckle::io {

namespace {

// Raised when a reader of the old version would misunderstand the new one.
constexpr std::string_view kFormatVersion = "2";
constexpr const char* kVersionKey = "deckle.checkpoint";
constexpr const char* kHashKey = "deckle.hash";
constexpr const char* kStepKey = "deckle.step";
constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kSuffix = ".safetensors";

/// A hash against damage, not against malice: 64-bit multiply and fold, eight bytes a step.
class Hash {
 public:
  void add(const void* data, size_t size) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    mix(size);
    for (; size >= 8; bytes += 8, size -= 8) {
      uint64_t word = 0;
      std::memcpy(&word, bytes, 8);
      mix(word);
    }
    uint64_t rest = 0;
    if (size > 0) std::memcpy(&rest, bytes, size);
    mix(rest);
  }
  uint64_t value() const { return state_; }

 private:
  void mix(uint64_t word) {
    const auto product = static_cast<unsigned __int128>(state_ ^ word) * 0x9E3779B97F4A7C15u;
    state_ = static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64) ^ 0xD1B54A32D192ED03u;
  }
  uint64_t state_ = 0x243F6A8885A308D3u;
};

std::string hash_of(const TensorMap& tensors, const Metadata& metadata) {
  Hash hash;
  for (const auto& [name, tensor] : tensors) {
    const std::string kind = fmt::format("{} {} {}", name, deckle::name(tensor.dtype()), to_string(tensor.sizes()));
    hash.add(kind.data(), kind.size());
    hash.add(tensor.to(Device()).raw_data(), static_cast<size_t>(tensor.numel() * item_size(tensor.dtype())));
  }
  for (const auto& [key, value] : metadata) {
    if (key == kHashKey) continue;
    hash.add(key.data(), key.size());
    hash.add(value.data(), value.size());
  }
  return fmt::format("{:016x}", hash.value());
}

/// body(), whose errors name the file of a checkpoint, or `method` of one that was read from none.
template <typename Body>
decltype(auto) call_of(const Checkpoint& checkpoint, std::string_view method, Body&& body) {
  return call_as(checkpoint.file.empty() ? std::string(method) : checkpoint.file.string(), body);
}

template <typename T>
T number(const Checkpoint& checkpoint, std::string_view method, const std::string& key, const char* what) {
  return call_of(checkpoint, method, [&] {
    const std::string& text = checkpoint.text(key);
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size())
      fail(ErrorKind::io, "the checkpoint's \"{}\" is \"{}\" (expected {})", key, text, what);
    return value;
  });
}

std::optional<int64_t> step_of(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return std::nullopt;
  int64_t step = 0;
  const char* const last = name.data() + name.size() - kSuffix.size();
  const auto [end, error] = std::from_chars(name.data() + kPrefix.size(), last, step);
  if (error != std::errc{} || end != last) return std::nullopt;
  return step;
}

/// Whether the file is a checkpoint, of whatever version, and not an unrelated file of the same name. Reads the header alone.
bool is_checkpoint(const std::filesystem::path& path) {
  try {
    return SafetensorsFile(path).metadata().contains(kVersionKey);
  } catch (const Error& error) {
    std::error_code ignored;
    const bool unopened = std::filesystem::is_regular_file(path, ignored) && !std::ifstream(path);  // it may be one
    if (unopened || error.kind() == ErrorKind::out_of_memory) throw;
    return false;
  }
}

}  // namespace

void Checkpoint::set(const std::string& key, int64_t value) { metadata[key] = std::to_string(value); }
void Checkpoint::set(const std::string& key, uint64_t value) { metadata[key] = std::to_string(value); }
void Checkpoint::set(const std::string& key, double value) {
  metadata[key] = fmt::format("{}", value);
}  // shortest text that reads back equal
void Checkpoint::set(const std::string& key, std::string value) { metadata[key] = std::move(value); }

int64_t Checkpoint::integer(const std::string& key) const {
  return number<int64_t>(*this, "Checkpoint::integer", key, "an integer");
}
uint64_t Checkpoint::natural(const std::string& key) const {
  return number<uint64_t>(*this, "Checkpoint::natural", key, "a non-negative integer");
}
double Checkpoint::real(const std::string& key) const { return number<double>(*this, "Checkpoint::real", key, "a number"); }
const std::string& Checkpoint::text(const std::string& key) const {
  const auto found = metadata.find(key);
  if (found == metadata.end())
    call_of(*this, "Checkpoint::text", [&] { fail(ErrorKind::io, "the checkpoint has no \"{}\"", key); });
  return found->second;
}

std::filesystem::path save_checkpoint(const Checkpoint& checkpoint, const std::filesystem::path& folder, int keep) {
  return call_on(folder, [&] {
    make_folder(folder);
    Metadata metadata = checkpoint.metadata;
    metadata[kVersionKey] = std::string(kFormatVersion);
    metadata[kStepKey] = std::to_string(checkpoint.step);
    for (const auto& [name, tensor] : checkpoint.tensors) {
      call_as("save_checkpoint", [&name = name, &tensor = tensor] {
        check(tensor.defined() && tensor.is_contiguous(), "\"{}\" is {} (expected a contiguous tensor)", name,
              tensor.defined() ? "not contiguous" : "undefined");
      });
    }
    metadata[kHashKey] = hash_of(checkpoint.tensors, metadata);
    std::filesystem::path path = folder / fmt::format("{}{}{}", kPrefix, checkpoint.step, kSuffix);
    save(checkpoint.tensors, path, metadata);

    int kept = 0;
    for (const std::filesystem::path& older : list_checkpoints(folder)) {
      if (*step_of(older) > checkpoint.step || ++kept <= std::max(keep, 1)) continue;
      std::error_code ignored;  // an old checkpoint that stays does no harm
      std::filesystem::remove(older, ignored);
    }
    return path;
  });
}

Checkpoint load_checkpoint(const std::filesystem::path& path) try {
  const SafetensorsFile file(path);
  Checkpoint checkpoint;
  checkpoint.metadata = file.metadata();
  checkpoint.file = path;
  const auto version = checkpoint.metadata.find(kVersionKey);
  if (version == checkpoint.metadata.end()) fail(ErrorKind::io, "not a checkpoint of a training run");
  if (version->second != kFormatVersion) {
    fail(ErrorKind::io, "a checkpoint of format version {} (expected {})", version->second, kFormatVersion);
  }
  for (const std::string& name : file.names()) checkpoint.tensors.emplace(name, file.read(name));
  if (checkpoint.text(kHashKey) != hash_of(checkpoint.tensors, checkpoint.metadata))
    fail(ErrorKind::io, "the checkpoint is damaged: its contents do not match its hash");
  checkpoint.step = checkpoint.integer(kStepKey);
  if (const std::optional<int64_t> step = step_of(path); step && *step != checkpoint.step) {
    fail(ErrorKind::io, "the checkpoint is of step {}: the file was renamed", checkpoint.step);
  }
  for (const char* key : {kVersionKey, kHashKey, kStepKey}) checkpoint.metadata.erase(key);
  return checkpoint;
} catch (...) {
  rethrow_from(path.native());
}

std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& folder) {
  return call_on(folder, [&] {
    std::vector<std::filesystem::path> found;
    std::error_code error;
    for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
      if (step_of(entry->path()) && is_checkpoint(entry->path())) found.push_back(entry->path());
    }
    if (error) fail_in(folder, "cannot read the folder: {}", error.message());
    std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return *step_of(a) > *step_of(b); });
    return found;
  });
}

std::filesystem::path latest_checkpoint(const std::filesystem::path& folder) {
  std::error_code error;
  if (std::filesystem::is_regular_file(folder, error)) return folder;
  if (!std::filesystem::is_directory(folder, error)) fail_in(folder, "no such run");
  const std::vector<std::filesystem::path> all = list_checkpoints(folder);
  if (all.empty()) fail_in(folder, "has no checkpoint (step-N.safetensors)");
  return all.front();
}

void remove_checkpoints(const std::filesystem::path& folder) {
  for (const std::filesystem::path& path : list_checkpoints(folder)) {
    std::error_code error;
    std::filesystem::remove(path, error);
    if (error) fail_in(path, "cannot remove: {}", error.message());
  }
}

}  // namespace deckle::io
