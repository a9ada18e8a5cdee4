// What is said of a driver or a library that fails: one sentence that says what to do.
#include "deckle/core/cuda/messages.h"

#include <functional>
#include <string>

#include "deckle/base/error.h"
#include "tests/cuda/gpu.h"

namespace deckle {
namespace {

void expect_said(const std::function<void()>& call, ErrorKind kind, const std::string& sentence) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    EXPECT_EQ(error.message(), sentence);
    return;
  }
  ADD_FAILURE() << "no error; expected: " << sentence;
}

TEST(CudaMessages, OfADriverThatIsMissingOrTooOld) {
  expect_said(
      [] {
        cuda::fail_device(kGpu, 0, {cuda::kOldDriver, "cudaErrorInsufficientDriver", "driver too old"}, 13020);
      },
      ErrorKind::runtime,
      "cuda:0 asked of a machine whose NVIDIA driver is missing or older than this build's CUDA 13.2 (expected a newer one)");
  expect_said(
      [] {
        cuda::fail_device(kGpu, 0, {100, "cudaErrorNoDevice", "no CUDA-capable device is detected"}, 13000);
      },
      ErrorKind::runtime,
      "cuda:0 asked of a machine without a usable GPU: no CUDA-capable device is detected (expected an NVIDIA GPU and its "
      "driver)");
  expect_said([] { cuda::fail_device(Device::cuda(2), 2, {}, 13000); }, ErrorKind::value,
              "cuda:2 asked of a machine with 2 GPUs (expected cuda:0 to cuda:1)");
}

TEST(CudaMessages, OfAMissingLibraryOrOneOfAnotherVersion) {
  expect_said([] { cuda::fail_library("libcublasLt.so.13"); }, ErrorKind::runtime,
              "no libcublasLt.so.13 for products on a GPU (expected the CUDA toolkit's libcublas in the loader's path or "
              "/usr/local/cuda/lib64, or DECKLE_CUBLASLT set to the file, which the Python package nvidia-cublas has too)");
  expect_said([] { cuda::fail_function("libcublasLt.so.13", "cublasLtMatmul"); }, ErrorKind::runtime,
              "libcublasLt.so.13 has no cublasLtMatmul (expected that of this build's CUDA)");
}

TEST(CudaMessages, OfAFailedCall) {
  expect_said(
      [] {
        cuda::fail_call("a block of 3 MiB", {cuda::kOutOfMemory, "cudaErrorMemoryAllocation", "out of memory"});
      },
      ErrorKind::out_of_memory, "no memory on the GPU for a block of 3 MiB (expected less of it in use: empty_cache)");
  expect_said(
      [] {
        cuda::fail_call("a kernel", {98, "cudaErrorInvalidDeviceFunction", "invalid device function"});
      },
      ErrorKind::runtime,
      "a kernel failed on the GPU: cudaErrorInvalidDeviceFunction, invalid device function (expected DECKLE_CUDA_SYNC=1 to "
      "name the op that caused it)");
}

// No op is their cause, so that nothing is found by waiting for each.
TEST(CudaMessages, OfACallThatNoOpMadeFailSayWhatToDo) {
  const std::pair<int, const char*> remedies[] = {
      {3, "a new process, not a child of fork"},
      {209, "a build with this GPU's compute capability in DECKLE_CUDA_ARCHITECTURES"},
      {222, "a newer driver, or a build with this GPU's compute capability in DECKLE_CUDA_ARCHITECTURES"},
      {600, "synchronize before"},
      {900, "it before a graph is recorded, or after"}};
  for (const auto& [code, remedy] : remedies) {
    EXPECT_FALSE(cuda::is_sticky(code));
    expect_said(
        [code = code] {
          cuda::fail_call("a kernel", {code, "cudaErrorSome", "some text"});
        },
        ErrorKind::runtime, std::string("a kernel failed on the GPU: cudaErrorSome, some text (expected ") + remedy + ")");
  }
  expect_said([] { cuda::fail_product("a layout", 7); }, ErrorKind::runtime,
              "a layout failed in cuBLASLt with status 7 (expected the cuBLASLt of this build's CUDA, and memory "
              "for it: empty_cache)");
}

// After these the driver answers every call with the same error.
TEST(CudaMessages, OfAnErrorThatLastsSayThatTheProcessMustEnd) {
  for (const int code : {700, 702, 710, 714, 715, 716, 717, 718, 719}) {
    EXPECT_TRUE(cuda::is_sticky(code));
    expect_said(
        [&] {
          cuda::fail_call("the work on a GPU", {code, "cudaErrorIllegalAddress", "an illegal access"});
        },
        ErrorKind::runtime,
        "the work on a GPU failed on the GPU, which serves this process no longer: cudaErrorIllegalAddress, an illegal "
        "access (expected a new process, with DECKLE_CUDA_SYNC=1 to name the op that caused it)");
  }
  for (const int code : {1, 2, 9, 98, 701, 720, 900}) EXPECT_FALSE(cuda::is_sticky(code));
}

}  // namespace
}  // namespace deckle
