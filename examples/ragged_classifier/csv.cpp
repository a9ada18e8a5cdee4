#include <charconv>
#include <fstream>
#include <optional>
#include <string_view>

#include "dataset.h"

namespace dk = deckle;

namespace {

/// Cuts the next field off a line; after the last one nothing is left, not even an empty field.
std::string_view next_field(std::optional<std::string_view>& line) {
  if (!line) return "";
  const size_t comma = line->find(',');
  const std::string_view field = line->substr(0, comma);
  if (comma == std::string_view::npos)
    line.reset();
  else
    line->remove_prefix(comma + 1);
  return field;
}

template <typename T>
T number(std::string_view field, const std::string& path, int64_t line) {
  T value{};
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (error != std::errc() || end != field.data() + field.size())
    throw dk::Error(path + ":" + std::to_string(line) + ": '" + std::string(field) + "' is no number");
  return value;
}

}  // namespace

Dataset read_csv(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw dk::Error("cannot open " + path);
  std::vector<float> values;
  std::vector<int64_t> lengths, labels;
  std::string text, series;
  std::getline(file, text);
  std::optional<std::string_view> header = text;
  next_field(header);
  const std::string_view label_name = next_field(header);
  if (!label_name.empty() && label_name.find_first_not_of("0123456789") == std::string_view::npos)
    throw dk::Error(path + ":1: label " + std::string(label_name) +
                    " where the header should be (expected series,label,channel,...)");
  size_t channels = 0;
  for (int64_t line = 2; std::getline(file, text); ++line) {
    if (!text.empty() && text.back() == '\r') text.pop_back();
    if (text.empty()) continue;
    std::optional<std::string_view> rest = text;
    const std::string name(next_field(rest));
    const auto label = number<int64_t>(next_field(rest), path, line);
    if (lengths.empty() || name != series) {
      series = name;
      lengths.push_back(0);
      labels.push_back(label);
    }
    if (label != labels.back() || label < 0)
      throw dk::Error(path + ":" + std::to_string(line) + ": label " + std::to_string(label) +
                      " (expected one label from 0 on for all of series " + series + ")");
    size_t count = 0;
    for (; rest; ++count) values.push_back(number<float>(next_field(rest), path, line));
    if (count == 0) throw dk::Error(path + ":" + std::to_string(line) + ": no channels (expected series,label,channel,...)");
    if (channels == 0) channels = count;
    if (count != channels)
      throw dk::Error(path + ":" + std::to_string(line) + ": " + std::to_string(count) + " channels (expected " +
                      std::to_string(channels) + ", as in the first row)");
    ++lengths.back();
  }
  if (lengths.empty()) throw dk::Error(path + " holds no series (expected a header line, then series,label,channel,...)");
  return {dk::NestedTensor::from_lengths(dk::tensor(values).view({-1, static_cast<int64_t>(channels)}), lengths),
          dk::tensor(labels)};
}
