#include "deckle/io/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "deckle/base/check.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/io/file.h"
#include "deckle/io/json.h"

namespace deckle::io {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

namespace {

constexpr uint64_t kSizeBytes = 8;                 // the header's size, before the header
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
constexpr uint64_t kAlignment = 8;                 // of the data, by spaces after the header

struct NamedType {
  std::string_view name;
  uint64_t item_size;
};

// All types of the format whose elements are whole bytes, those that Deckle lacks included: their sizes are checked too.
constexpr NamedType kFormatTypes[] = {{"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1}, {"F8_E8M0", 1},
                                      {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},     {"U32", 4},
                                      {"F32", 4},  {"C64", 8}, {"F64", 8}, {"I64", 8},     {"U64", 8}};

constexpr std::string_view kTypeNames[kDTypeCount] = {"BOOL", "U8", "I32", "I64", "F16", "BF16", "F32", "F64"};

std::string_view format_name(DType dtype) { return kTypeNames[static_cast<int>(dtype)]; }

std::optional<DType> parse_dtype(std::string_view name) {
  const auto* found = std::find(std::begin(kTypeNames), std::end(kTypeNames), name);
  if (found == std::end(kTypeNames)) return std::nullopt;
  return static_cast<DType>(found - std::begin(kTypeNames));
}

/// The bytes that dtype and shape promise; throws when they overflow or the type is unknown.
uint64_t promised_bytes(const TensorEntry& entry) {
  const auto* type =
      std::find_if(std::begin(kFormatTypes), std::end(kFormatTypes), [&](const NamedType& t) { return t.name == entry.dtype; });
  if (type == std::end(kFormatTypes)) fail(ErrorKind::io, "tensor \"{}\" has the unknown dtype \"{}\"", entry.name, entry.dtype);
  uint64_t bytes = type->item_size;
  // A zero makes the product zero whatever comes before it.
  if (std::find(entry.shape.begin(), entry.shape.end(), 0u) != entry.shape.end()) bytes = 0;
  for (const uint64_t size : entry.shape) {
    if (size > uint64_t{INT64_MAX} || __builtin_mul_overflow(bytes, size, &bytes)) {
      fail(ErrorKind::io, "the shape [{}] of tensor \"{}\" overflows", fmt::join(entry.shape, ", "), entry.name);
    }
  }
  return bytes;
}

/// Checks that the tensors, in order of their offsets, fill `data_bytes` exactly.
void check_layout(std::vector<TensorEntry>& tensors, uint64_t data_bytes) {
  std::sort(tensors.begin(), tensors.end(),
            [](const TensorEntry& a, const TensorEntry& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  uint64_t expected = 0;
  for (const TensorEntry& entry : tensors) {
    if (entry.end < entry.begin || entry.end > data_bytes) {
      fail(ErrorKind::io, "the offsets [{}, {}] of tensor \"{}\" lie outside the {} bytes of data", entry.begin, entry.end,
           entry.name, data_bytes);
    }
    const uint64_t promised = promised_bytes(entry);
    if (entry.end - entry.begin != promised) {
      fail(ErrorKind::io, "tensor \"{}\" has {} bytes, but {} [{}] takes {}", entry.name, entry.end - entry.begin, entry.dtype,
           fmt::join(entry.shape, ", "), promised);
    }
    if (entry.begin < expected) fail(ErrorKind::io, "tensor \"{}\" overlaps the one before it", entry.name);
    if (entry.begin > expected)
      fail(ErrorKind::io, "{} bytes before tensor \"{}\" belong to no tensor", entry.begin - expected, entry.name);
    expected = entry.end;
  }
  if (expected != data_bytes) fail(ErrorKind::io, "{} bytes at the end belong to no tensor", data_bytes - expected);
}

/// `tensor`'s elements in row-major order.
std::vector<std::byte> pack(const Tensor& tensor) {
  const auto item = static_cast<size_t>(item_size(tensor.dtype()));
  std::vector<std::byte> bytes(static_cast<size_t>(tensor.numel()) * item);
  const auto* source = static_cast<const std::byte*>(tensor.raw_data());
  Dims index(tensor.sizes().size(), 0);
  int64_t offset = 0;
  for (size_t at = 0; at < bytes.size(); at += item) {
    std::memcpy(bytes.data() + at, source + offset * static_cast<int64_t>(item), item);
    for (size_t dim = index.size(); dim-- > 0;) {
      offset += tensor.strides()[dim];
      if (++index[dim] < tensor.sizes()[dim]) break;
      offset -= tensor.strides()[dim] * tensor.sizes()[dim];
      index[dim] = 0;
    }
  }
  return bytes;
}

Tensor read_entry(const TensorEntry& entry, std::span<const std::byte> data) {
  const std::optional<DType> dtype = parse_dtype(entry.dtype);
  if (!dtype) {
    fail(ErrorKind::not_implemented, "tensor \"{}\" has dtype {} (expected {})", entry.name, entry.dtype,
         fmt::join(kTypeNames, ", "));
  }
  const Tensor tensor = empty(Dims(entry.shape.begin(), entry.shape.end()), *dtype);
  const std::span<const std::byte> source = data.subspan(entry.begin, entry.end - entry.begin);
  if (*dtype == DType::bool_ && std::any_of(source.begin(), source.end(), [](std::byte b) { return b > std::byte{1}; })) {
    fail(ErrorKind::io, "tensor \"{}\" of dtype BOOL has bytes other than 0 and 1", entry.name);
  }
  if (!source.empty()) std::memcpy(tensor.raw_data(), source.data(), source.size());
  return tensor;
}

/// The header of a file with these tensors, padded to the alignment of what follows.
std::string header_of(const TensorMap& tensors, const Metadata& metadata) {
  SafetensorsHeader header;
  header.metadata = metadata;
  uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    check(tensor.defined(), "\"{}\" is undefined (expected a tensor)", name);
    check(name != "__metadata__", "a tensor is named \"__metadata__\" (expected another name, since the format has this one)");
    const uint64_t bytes = static_cast<uint64_t>(tensor.numel() * item_size(tensor.dtype()));
    header.tensors.push_back(
        {name, std::string(format_name(tensor.dtype())), {tensor.sizes().begin(), tensor.sizes().end()}, offset, offset + bytes});
    offset += bytes;
  }
  std::string text = to_json(header);
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  return text;
}

}  // namespace

struct SafetensorsFile::Contents {
  explicit Contents(const std::filesystem::path& path) : path(path.string()), file(path) {}

  std::string path;
  MappedFile file;
  std::span<const std::byte> data;
  Metadata metadata;
  std::map<std::string, TensorEntry> tensors;
};

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) try : contents_(std::make_unique<Contents>(path)) {
  const std::span<const std::byte> bytes = contents_->file.bytes();
  if (bytes.size() < kSizeBytes) fail(ErrorKind::io, "not a safetensors file: {} bytes", bytes.size());
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), kSizeBytes);
  if (header_bytes > kMaxHeaderBytes || header_bytes > bytes.size() - kSizeBytes) {
    fail(ErrorKind::io, "not a safetensors file, or cut short: its header claims {} bytes of {}", header_bytes, bytes.size());
  }
  const std::string_view text = contents_->file.text().substr(kSizeBytes, header_bytes);
  if (text.empty() || text[0] != '{') fail(ErrorKind::io, "not a safetensors file: its header does not begin with {{");
  SafetensorsHeader header = parse_safetensors_header(text);
  contents_->data = bytes.subspan(kSizeBytes + header_bytes);
  check_layout(header.tensors, contents_->data.size());
  contents_->metadata = std::move(header.metadata);
  for (TensorEntry& entry : header.tensors) contents_->tensors.emplace(entry.name, std::move(entry));
} catch (...) {
  rethrow_from(path.native());
}

SafetensorsFile::~SafetensorsFile() = default;
SafetensorsFile::SafetensorsFile(SafetensorsFile&&) noexcept = default;

const Metadata& SafetensorsFile::metadata() const { return contents_->metadata; }

std::vector<std::string> SafetensorsFile::names() const try {
  std::vector<std::string> names;
  for (const auto& [name, entry] : contents_->tensors) names.push_back(name);
  return names;
} catch (...) {
  rethrow_from(contents_->path);
}

bool SafetensorsFile::contains(const std::string& name) const { return contents_->tensors.contains(name); }

Tensor SafetensorsFile::read(const std::string& name) const try {
  const auto found = contents_->tensors.find(name);
  if (found == contents_->tensors.end()) fail(ErrorKind::io, "has no tensor \"{}\"", name);
  return read_entry(found->second, contents_->data);
} catch (...) {
  rethrow_from(contents_->path);
}

void save(std::initializer_list<TensorMap::value_type> tensors, const std::filesystem::path& path, const Metadata& metadata) {
  const TensorMap map = call_as("save", [&] {
    TensorMap named;
    for (const auto& [name, tensor] : tensors) {
      const bool first = named.emplace(name, tensor).second;
      check(first, "two tensors are named \"{}\" (expected different names)", name);
    }
    return named;
  });
  save(map, path, metadata);
}

void save(const TensorMap& tensors, const std::filesystem::path& path, const Metadata& metadata) {
  const std::string text = call_as("save", [&] { return header_of(tensors, metadata); });
  const uint64_t header_bytes = text.size();

  call_on(path, [&] {
    AtomicFile file(path);
    file.write({reinterpret_cast<const char*>(&header_bytes), sizeof header_bytes});
    file.write(text);
    for (const auto& [name, given] : tensors) {
      const Tensor tensor = given.to(Device());
      if (tensor.is_contiguous()) {
        file.write(
            {static_cast<const char*>(tensor.raw_data()), static_cast<size_t>(tensor.numel() * item_size(tensor.dtype()))});
      } else {
        const std::vector<std::byte> bytes = pack(tensor);
        file.write({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
      }
    }
    file.commit();
  });
}

TensorMap load(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  return call_on(path, [&] {
    TensorMap tensors;
    for (const std::string& name : file.names()) tensors.emplace(name, file.read(name));
    return tensors;
  });
}

}  // namespace deckle::io
