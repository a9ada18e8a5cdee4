#include "deckle/core/cuda/messages.h"

#include <algorithm>
#include <array>

#include "deckle/base/check.h"

namespace deckle::cuda {
namespace {

// Of cudaError: those whose documentation says that the process must end to use the device again.
constexpr std::array kSticky = {214, 220, kIllegalAddress, 702, 710, 714, 715, 716, 717, 718, 719, 721, 809, 911};

/// What to do.
std::string_view remedy(int code) {
  switch (code) {
    case 3:  // cudaErrorInitializationError
      return "a new process, not a child of fork";
    case 209:  // cudaErrorNoKernelImageForDevice
      return "a build with this GPU's compute capability in DECKLE_CUDA_ARCHITECTURES";
    case 222:  // cudaErrorUnsupportedPtxVersion
      return "a newer driver, or a build with this GPU's compute capability in DECKLE_CUDA_ARCHITECTURES";
    case 600:  // cudaErrorNotReady
      return "synchronize before";
    case 900:  // cudaErrorStreamCaptureUnsupported
      return "it before a graph is recorded, or after";
    default:
      return "DECKLE_CUDA_SYNC=1 to name the op that caused it";
  }
}

}  // namespace

bool is_sticky(int code) { return std::find(kSticky.begin(), kSticky.end(), code) != kSticky.end(); }

void fail_call(std::string_view what, const Report& report) {
  if (report.code == kOutOfMemory)
    fail(ErrorKind::out_of_memory, "no memory on the GPU for {} (expected less of it in use: empty_cache)", what);
  if (is_sticky(report.code))
    fail(ErrorKind::runtime,
         "{} failed on the GPU, which serves this process no longer: {}, {} (expected a new process, with DECKLE_CUDA_SYNC=1 to "
         "name the op that caused it)",
         what, report.name, report.text);
  fail(ErrorKind::runtime, "{} failed on the GPU: {}, {} (expected {})", what, report.name, report.text, remedy(report.code));
}

void fail_product(std::string_view what, int status) {
  fail(ErrorKind::runtime,
       "{} failed in cuBLASLt with status {} (expected the cuBLASLt of this build's CUDA, and memory for it: empty_cache)", what,
       status);
}

void fail_device(Device device, int count, const Report& report, int toolkit) {
  if (report.code == kOldDriver)
    fail(ErrorKind::runtime,
         "{} asked of a machine whose NVIDIA driver is missing or older than this build's CUDA {}.{} (expected a newer one)",
         to_string(device), toolkit / 1000, toolkit % 1000 / 10);
  if (count == 0)
    fail(ErrorKind::runtime, "{} asked of a machine without a usable GPU: {} (expected an NVIDIA GPU and its driver)",
         to_string(device), report.text);
  fail("{} asked of a machine with {} GPU{} (expected cuda:0 to cuda:{})", to_string(device), count, count == 1 ? "" : "s",
       count - 1);
}

void fail_library(std::string_view file) {
  fail(ErrorKind::runtime,
       "no {} for products on a GPU (expected the CUDA toolkit's libcublas in the loader's path or /usr/local/cuda/lib64, or "
       "DECKLE_CUBLASLT set to the file, which the Python package nvidia-cublas has too)",
       file);
}

void fail_function(std::string_view file, std::string_view function) {
  fail(ErrorKind::runtime, "{} has no {} (expected that of this build's CUDA)", file, function);
}

}  // namespace deckle::cuda
