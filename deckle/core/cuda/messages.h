#pragma once

#include <string_view>

#include "deckle/base/device.h"

/// What is said of failures of the driver and of libraries, in one sentence that says what to do. They know no toolkit, so that
/// tests on machines without a GPU give them what a driver would.
namespace deckle::cuda {

/// What a call reported, as the toolkit numbers and tells it.
struct Report {
  int code;
  std::string_view name, text;
};
inline constexpr int kOutOfMemory = 2, kOldDriver = 35, kIllegalAddress = 700;

/// `what` was tried.
[[noreturn]] void fail_call(std::string_view what, const Report& report);

/// The same of a call of cuBLASLt, of which the runtime knows nothing more.
[[noreturn]] void fail_product(std::string_view what, int status);

/// Whether the error is a sticky one: every later call of this process fails with it, too.
bool is_sticky(int code);

/// `device` is none of the `count` that were found; `report` is of the search, code 0 if that went well. `toolkit` is 1000 times
/// the major version of the build's, and ten times the minor.
[[noreturn]] void fail_device(Device device, int count, const Report& report, int toolkit);

/// A library that products need was not found.
[[noreturn]] void fail_library(std::string_view file);
/// It was, but lacks a function.
[[noreturn]] void fail_function(std::string_view file, std::string_view function);

}  // namespace deckle::cuda
