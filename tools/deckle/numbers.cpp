#include "tools/deckle/numbers.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>

namespace deckle::cli {

std::string short_count(double value) {
  constexpr const char* prefixes[] = {"", " k", " M", " G", " T"};
  size_t prefix = 0;
  while (std::abs(value) >= 999.5 && prefix < 4) {
    value /= 1000;
    ++prefix;
  }
  if (prefix == 0) return fmt::format("{:.0f}", value);
  const int decimals = std::abs(value) < 9.995 ? 2 : std::abs(value) < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f}{}", value, decimals, prefixes[prefix]);
}

std::string bytes_text(double bytes) {
  const std::string count = short_count(bytes);
  return count + (count.find(' ') == std::string::npos ? " B" : "B");
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<int64_t>(std::clamp(std::round(seconds), 0.0, 1e15));
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string count_text(int64_t count, const std::string& noun) {
  return fmt::format("{} {}{}", with_commas(count), noun, count == 1 ? "" : "s");
}

int64_t memory_in_use() {
  int64_t pages = 0;
  int64_t resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

int64_t peak_memory() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

}  // namespace deckle::cli
