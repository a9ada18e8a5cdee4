#pragma once

#include <optional>
#include <string>

#include "deckle/base/device.h"
#include "deckle/base/dtype.h"

namespace deckle::cli {

/// Why a text names no device or dtype of the command line, "" where it does.
std::string why_no_device(const std::string& name);
std::string why_no_dtype(const std::string& name);

/// "cpu", "cuda", "cuda:1", or "auto": the first GPU if there is one. An Error, with what to do, if that device cannot be used.
Device choose_device(const std::string& name);

/// "float32", "bf16", or "auto": what trains faster on that device.
DType choose_dtype(const std::string& name, Device device);

/// What an Autocast for products in `dtype` takes: none for float32.
std::optional<DType> autocast_for(DType dtype);

/// "2 threads (avx512)", "2 threads (AMX tiles), bf16", "cuda:0, bf16".
std::string placement_text(DType dtype, Device device);

/// Bytes of the process, or of tensors on a GPU: now, and at most.
int64_t memory_in_use(Device device);
int64_t peak_memory(Device device);

}  // namespace deckle::cli
