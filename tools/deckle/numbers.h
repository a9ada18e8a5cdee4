#pragma once

#include <cstdint>
#include <string>

#include "deckle/base/numbers.h"

namespace deckle::cli {

/// Three digits and a decimal prefix: "2.53 M", "871", "14.0 k".
std::string short_count(double value);

/// "2.53 MB".
std::string bytes_text(double bytes);

/// "1:53", "1:02:03".
std::string duration_text(double seconds);

/// "1 text", "15,218 texts".
std::string count_text(int64_t count, const std::string& noun);

/// Resident set size of the process, current and peak, in bytes.
int64_t memory_in_use();
int64_t peak_memory();

}  // namespace deckle::cli
