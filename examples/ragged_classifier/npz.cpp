// An .npz is a zip of .npy files; numpy.savez stores them without compression, so each is a run of bytes in the file.
//   zip: little-endian; the end record names the central directory, which names each file and where it starts (APPNOTE.TXT 4.3)
//   npy: "\x93NUMPY", version, length of the header, the header as a Python dict, the elements (numpy.lib.format)

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>

#include "dataset.h"

namespace dk = deckle;

namespace {

class Reader {
 public:
  Reader(std::string bytes, std::string path) : bytes_(std::move(bytes)), path_(std::move(path)) {}

  [[noreturn]] void fail(const std::string& what) const { throw dk::Error(path_ + ": " + what); }

  std::string_view part(size_t at, size_t count) const {
    if (at > bytes_.size() || count > bytes_.size() - at) fail("the file ends early");
    return std::string_view(bytes_).substr(at, count);
  }
  template <typename T>
  T number(size_t at) const {
    T value;
    std::memcpy(&value, part(at, sizeof(T)).data(), sizeof(T));
    return value;
  }
  size_t end_record() const {
    const size_t at = bytes_.rfind("PK\x05\x06");
    if (at == std::string::npos) fail("this is no .npz file (a zip of arrays)");
    return at;
  }

 private:
  std::string bytes_;
  std::string path_;
};

/// name -> the bytes of the .npy file
std::map<std::string, std::string_view> files_of(const Reader& zip) {
  const size_t end = zip.end_record();
  const auto count = zip.number<uint16_t>(end + 10);
  size_t at = zip.number<uint32_t>(end + 16);
  std::map<std::string, std::string_view> files;
  for (int i = 0; i < count; ++i) {
    const auto method = zip.number<uint16_t>(at + 10), name_size = zip.number<uint16_t>(at + 28),
               extra_size = zip.number<uint16_t>(at + 30), comment_size = zip.number<uint16_t>(at + 32);
    const auto size = zip.number<uint32_t>(at + 24), start = zip.number<uint32_t>(at + 42);
    const std::string name(zip.part(at + 46, name_size));
    if (method != 0) zip.fail(name + " is compressed (expected numpy.savez, not savez_compressed)");
    const size_t data = start + 30 + size_t{zip.number<uint16_t>(start + 26)} + zip.number<uint16_t>(start + 28);
    files[name] = zip.part(data, size);
    at += size_t{46} + name_size + extra_size + comment_size;
  }
  return files;
}

/// The text after `key` in an .npy header, up to `end`.
std::string entry(const std::string& header, const std::string& key, char end, const Reader& zip) {
  const size_t at = header.find(key);
  if (at == std::string::npos) zip.fail("an array's header lacks " + key);
  const size_t start = at + key.size(), stop = header.find(end, start);
  return header.substr(start, stop - start);
}

template <typename From, typename To>
dk::Tensor converted(std::string_view bytes, size_t count, const Reader& zip) {
  if (bytes.size() / sizeof(From) < count) zip.fail("an array is shorter than its shape says");
  std::vector<To> values(count);
  for (size_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, bytes.data() + i * sizeof(From), sizeof(From));
    values[i] = static_cast<To>(value);
  }
  return dk::tensor(values);
}

dk::Tensor array(const std::map<std::string, std::string_view>& files, const std::string& name, const Reader& zip) {
  const auto found = files.find(name + ".npy");
  if (found == files.end()) zip.fail("there is no array '" + name + "' (expected values, offsets and labels)");
  const std::string_view file = found->second;
  if (file.size() < 12 || file.substr(0, 6) != "\x93NUMPY") zip.fail("'" + name + "' is no .npy array");
  const bool old = file[6] == 1;  // two bytes for the length of the header, later four
  uint32_t header_size = 0;
  std::memcpy(&header_size, file.data() + 8, old ? 2 : 4);
  const size_t start = old ? 10 : 12;
  if (file.size() < start + header_size) zip.fail("'" + name + "' ends early");
  const std::string header(file.substr(start, header_size));
  const std::string_view data = file.substr(start + header_size);
  if (header.find("'fortran_order': False") == std::string::npos)
    zip.fail("'" + name + "' is in column order (expected row order)");

  dk::Dims sizes;
  for (std::string shape = entry(header, "'shape': (", ')', zip); !shape.empty();) {
    const size_t comma = shape.find(',');
    std::string_view size = std::string_view(shape).substr(0, comma);
    size.remove_prefix(std::min(size.find_first_not_of(' '), size.size()));
    if (!size.empty()) {  // (6,) is [6]
      int64_t value = 0;
      const auto [stop, error] = std::from_chars(size.data(), size.data() + size.size(), value);
      if (error != std::errc() || stop != size.data() + size.size() || value < 0)
        zip.fail("'" + name + "' has a size '" + std::string(size) + "'");
      sizes.push_back(value);
    }
    shape = comma == std::string::npos ? "" : shape.substr(comma + 1);
  }
  const auto count = static_cast<size_t>(dk::numel_of(sizes));
  const std::string type = entry(header, "'descr': '", '\'', zip);
  if (type == "<f4") return converted<float, float>(data, count, zip).view(sizes);
  if (type == "<f8") return converted<double, float>(data, count, zip).view(sizes);
  if (type == "<i4") return converted<int32_t, int64_t>(data, count, zip).view(sizes);
  if (type == "<i8") return converted<int64_t, int64_t>(data, count, zip).view(sizes);
  zip.fail("'" + name + "' is of type " + type + " (expected float32, float64, int32 or int64)");
}

}  // namespace

Dataset read_npz(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw dk::Error("cannot open " + path);
  const Reader zip(std::string(std::istreambuf_iterator<char>(stream), {}), path);
  const auto files = files_of(zip);
  const dk::Tensor values = array(files, "values", zip), labels = array(files, "labels", zip);
  if (values.dim() != 2) zip.fail("values have shape " + dk::to_string(values.sizes()) + " (expected [rows, channels])");
  const dk::NestedTensor series = dk::from_arrow({array(files, "offsets", zip), values.to(dk::DType::float32)});
  if (series.values().size(0) != values.size(0))
    zip.fail("offsets leave rows out: " + std::to_string(series.values().size(0)) + " of " + std::to_string(values.size(0)) +
             " are in a series");
  return {series, labels};
}
