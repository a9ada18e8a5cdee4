#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "deckle/io/checkpoint.h"
#include "deckle/io/json.h"
#include "deckle/io/safetensors.h"
#include "deckle/io/text_files.h"
#include "deckle/io/utf8.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/targets.h"

namespace deckle::fuzz {
namespace {

namespace fs = std::filesystem;

/// A folder of this process.
const fs::path& folder() {
  static const fs::path path = [] {
    fs::path fresh = fs::temp_directory_path() / ("fuzz_" + std::to_string(getpid()));
    fs::create_directories(fresh);
    return fresh;
  }();
  return path;
}

void put(const fs::path& path, std::string_view contents) {
  std::ofstream(path, std::ios::binary).write(contents.data(), static_cast<std::streamsize>(contents.size()));
}

/// One character decoded by the table of the Unicode standard (3-7); 0: none.
size_t well_formed(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0x100u; };
  const auto tail = [&](size_t i, unsigned low, unsigned high) { return byte(i) >= low && byte(i) <= high; };
  const unsigned first = byte(at);
  if (first <= 0x7F) return 1;
  if (first >= 0xC2 && first <= 0xDF) return tail(at + 1, 0x80, 0xBF) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const unsigned low = first == 0xE0 ? 0xA0 : 0x80, high = first == 0xED ? 0x9F : 0xBF;
    return tail(at + 1, low, high) && tail(at + 2, 0x80, 0xBF) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const unsigned low = first == 0xF0 ? 0x90 : 0x80, high = first == 0xF4 ? 0x8F : 0xBF;
    return tail(at + 1, low, high) && tail(at + 2, 0x80, 0xBF) && tail(at + 3, 0x80, 0xBF) ? 4 : 0;
  }
  return 0;
}

}  // namespace

bool safetensors(std::string_view input) {
  const fs::path path = folder() / "x.safetensors";
  put(path, input);
  bool read = false;  // with all of its tensors
  try {
    const io::SafetensorsFile file(path);
    read = true;
    for (const std::string& name : file.names()) {
      require(file.contains(name), "a tensor that is named is not there");
      try {
        const Tensor tensor = file.read(name);
        require(tensor.numel() * item_size(tensor.dtype()) <= static_cast<int64_t>(input.size()), "more data than the file has");
      } catch (const Error&) {
        read = false;
      }
    }
  } catch (const Error&) {
  }
  try {
    const io::SafetensorsHeader header = io::parse_safetensors_header(input);
    const std::string printed = io::to_json(header);
    require(io::to_json(io::parse_safetensors_header(printed)) == printed, "a header is not read as it was written: " + printed);
  } catch (const Error&) {
  }
  return read;
}

/// Input: files, each the length of a name, the name, a length in two bytes, the contents.
bool checkpoint(std::string_view input) {
  const fs::path run = folder() / "run";
  fs::remove_all(run);
  fs::create_directories(run);
  Bytes bytes(input);
  for (int files = 0; files < 6 && !bytes.empty(); ++files) {
    std::string name(bytes.take(static_cast<size_t>(bytes.below(40))));
    for (char& character : name) character = character == '/' || character == '\0' ? '_' : character;
    const size_t size = static_cast<size_t>(bytes.byte()) * 256 + bytes.byte();
    const std::string_view contents = bytes.take(size);
    if (name.empty() || name == "." || name == "..") continue;
    if (size == 0x7777)
      fs::create_directories(run / name);
    else
      put(run / name, contents);
  }
  bool read = false;  // one of them
  try {
    for (const fs::path& path : io::list_checkpoints(run)) {
      require(path.parent_path() == run, "a checkpoint of another folder");
      try {
        const io::Checkpoint checkpoint = io::load_checkpoint(path);
        require(checkpoint.step >= 0, "a checkpoint of a negative step");
        read = true;
      } catch (const Error&) {
      }
    }
    (void)io::latest_checkpoint(run);
    io::remove_checkpoints(run);
    require(io::list_checkpoints(run).empty(), "a checkpoint is left");
  } catch (const Error&) {
  }
  return read;
}

/// Input: the format, the greatest length, then the file.
bool text(std::string_view input) {
  Bytes bytes(input);
  io::TextOptions options;
  options.format = static_cast<io::TextFormat>(bytes.below(4));
  options.max_length = bytes.below(9) * bytes.below(5);
  const fs::path path = folder() / (bytes.below(2) == 0 ? "texts.jsonl" : "texts.txt");
  put(path, bytes.rest());
  try {
    const io::TextStore store = io::read_texts({&path, 1}, options);
    fs::remove(path);
    require(store.size() > 0, "no text, and no error");
    require(store.offsets.front() == 0 && store.offsets.back() == static_cast<int64_t>(store.bytes.size()),
            "the offsets are wrong");
    for (int64_t i = 0; i < store.size(); ++i) {
      require(store.offsets[static_cast<size_t>(i)] < store.offsets[static_cast<size_t>(i) + 1], "an empty text");
      require(io::find_invalid_utf8(store[i]) == std::string_view::npos, "a text that is not UTF-8");
      // A character of four bytes is not split.
      require(options.max_length == 0 || static_cast<int64_t>(store[i].size()) <= std::max<int64_t>(options.max_length, 4),
              "a text is longer than the limit");
    }
    return true;
  } catch (const Error&) {
    fs::remove(path);
    return false;
  }
}

bool jsonl(std::string_view input) {
  try {
    (void)io::json_string_field(input, "text");
    return true;
  } catch (const Error&) {
    return false;
  }
}

bool utf8(std::string_view input) {
  size_t expected = 0;
  while (expected < input.size()) {
    const size_t length = well_formed(input, expected);
    if (length == 0) break;
    expected += length;
  }
  const size_t invalid = io::find_invalid_utf8(input);
  require(expected == input.size() ? invalid == std::string_view::npos
                                   : invalid >= expected && invalid < std::min(expected + 4, input.size()),
          "the first invalid byte is at " + std::to_string(invalid) + ", in the character at " + std::to_string(expected));
  const std::string_view valid = input.substr(0, expected);
  for (const size_t limit : {size_t{0}, size_t{1}, size_t{3}, size_t{4}, valid.size() / 2, valid.size(), valid.size() + 5}) {
    const size_t cut = io::utf8_cut(valid, limit);
    require(cut <= std::min(limit, valid.size()), "a cut beyond the limit");
    require(io::find_invalid_utf8(valid.substr(0, cut)) == std::string_view::npos &&
                io::find_invalid_utf8(valid.substr(cut)) == std::string_view::npos,
            "a cut within a character");
    require(std::min(limit, valid.size()) - cut < 4, "a character more fits");
  }
  return expected == input.size();
}

}  // namespace deckle::fuzz
