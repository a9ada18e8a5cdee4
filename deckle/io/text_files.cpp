#include "deckle/io/text_files.h"

#include <algorithm>

#include "deckle/base/check.h"
#include "deckle/io/file.h"
#include "deckle/io/json.h"
#include "deckle/io/utf8.h"

namespace deckle::io {

namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kWhiteSpace = " \t\r\n\v\f";

/// Takes the next line, without its end (\n or \r\n), off `rest`.
std::string_view take_line(std::string_view& rest) {
  const size_t end = rest.find('\n');
  std::string_view line = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

bool has_separator(std::string_view text) {
  while (!text.empty()) {
    if (take_line(text) == "%") return true;
  }
  return false;
}

TextFormat format_of(const std::filesystem::path& path, std::string_view text) {
  const std::string ending = path.extension().string();
  if (ending == ".jsonl" || ending == ".ndjson") return TextFormat::jsonl;
  return has_separator(text) ? TextFormat::percent : TextFormat::lines;
}

void add_text(TextStore& store, std::string_view text, int64_t max_length) {
  if (text.find_first_not_of(kWhiteSpace) == std::string_view::npos) return;
  while (max_length > 0 && static_cast<int64_t>(text.size()) > max_length) {
    size_t cut = utf8_cut(text, static_cast<size_t>(max_length));
    // A character longer than the limit is a piece of its own.
    for (size_t limit = static_cast<size_t>(max_length) + 1; cut == 0; ++limit) cut = utf8_cut(text, limit);
    store.add(text.substr(0, cut));
    text.remove_prefix(cut);
  }
  if (!text.empty()) store.add(text);
}

void add_percent(TextStore& store, std::string_view contents, int64_t max_length) {
  std::string text;
  const auto finish = [&] {
    if (text.ends_with('\n')) text.pop_back();
    add_text(store, text, max_length);
    text.clear();
  };
  while (!contents.empty()) {
    const std::string_view line = take_line(contents);
    if (line == "%") {
      finish();
    } else {
      text += line;
      text += '\n';
    }
  }
  finish();
}

void add_jsonl(TextStore& store, std::string_view contents, const TextOptions& options) {
  for (int64_t number = 1; !contents.empty(); ++number) {
    const std::string_view line = take_line(contents);
    if (line.find_first_not_of(kWhiteSpace) == std::string_view::npos) continue;
    std::optional<std::string> text;
    try {
      text = json_string_field(line, options.field);
    } catch (const Error& error) {
      fail(ErrorKind::io, "line {}: {}", number, error.detail());
    }
    if (!text) fail(ErrorKind::io, "line {}: has no text at \"{}\"", number, options.field);
    add_text(store, *text, options.max_length);
  }
}

void add_file(TextStore& store, const std::filesystem::path& path, const TextOptions& options) {
  const MappedFile file(path);
  std::string_view contents = file.text();
  if (contents.starts_with(kByteOrderMark)) contents.remove_prefix(kByteOrderMark.size());
  if (const size_t bad = find_invalid_utf8(contents); bad != std::string_view::npos) {
    const auto line = 1 + std::count(contents.begin(), contents.begin() + static_cast<std::ptrdiff_t>(bad), '\n');
    fail(ErrorKind::io, "line {}: not valid UTF-8 (byte 0x{:02x})", line, static_cast<unsigned char>(contents[bad]));
  }
  const TextFormat format = options.format == TextFormat::automatic ? format_of(path, contents) : options.format;
  if (format == TextFormat::percent) return add_percent(store, contents, options.max_length);
  if (format == TextFormat::jsonl) return add_jsonl(store, contents, options);
  while (!contents.empty()) add_text(store, take_line(contents), options.max_length);
}

bool is_index_file(const std::filesystem::path& path) {
  std::filesystem::path text = path;
  return path.extension() == ".dat" && std::filesystem::exists(text.replace_extension());
}

std::vector<std::filesystem::path> text_files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const bool hidden = entry->path().filename().string().starts_with('.');
    if (entry->is_regular_file() && !entry->is_symlink() && !hidden && !is_index_file(entry->path()))
      files.push_back(entry->path());
  }
  if (error) fail_in(folder, "cannot read the folder: {}", error.message());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

TextStore read_texts(std::span<const std::filesystem::path> paths, const TextOptions& options) {
  call_as("read_texts",
          [&] { check(options.max_length >= 0, "TextOptions.max_length is {} (expected 0 or more)", options.max_length); });
  TextStore store;
  for (const std::filesystem::path& path : paths) {
    const int64_t before = store.size();
    std::error_code ignored;  // errors of the path are reported when it is opened
    const bool folder = std::filesystem::is_directory(path, ignored);
    for (const std::filesystem::path& file : folder ? text_files_in(path) : std::vector{path}) {
      try {
        add_file(store, file, options);
      } catch (Error& error) {
        error.set_op(file.string());
        throw;
      }
    }
    if (store.size() == before) fail_in(path, "holds no text");
  }
  return store;
}

}  // namespace deckle::io
