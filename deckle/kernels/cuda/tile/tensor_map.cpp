#include "deckle/kernels/cuda/tile/tensor_map.h"

#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

namespace deckle::kernels::cuda::tile {
namespace {

// Fetched through the runtime, so nothing links against the driver library.
PFN_cuTensorMapEncodeTiled_v12000 encode_function() {
  static const auto function = [] {
    void* pointer = nullptr;
    cudaDriverEntryPointQueryResult status{};
#if CUDART_VERSION >= 12050
    cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &pointer, 12000, cudaEnableDefault, &status);
#else
    cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &pointer, cudaEnableDefault, &status);
#endif
    if (pointer == nullptr || status != cudaDriverEntryPointSuccess) {
      throw std::runtime_error("attention: the driver has no cuTensorMapEncodeTiled (CUDA 12 or newer is needed)");
    }
    return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(pointer);
  }();
  return function;
}

}  // namespace

void make_tensor_map(const TensorMapShape& shape, int box_rows, void* map) {
  constexpr int64_t kBytes = 2;
  auto* base = static_cast<char*>(shape.data);
  // The driver accepts no empty dim, and wants 16 bytes of strides that are never used, too.
  const auto at_least_one = [](int64_t n) { return static_cast<cuuint64_t>(std::max<int64_t>(n, 1)); };
  const auto stride = [](int64_t count, int64_t elements) { return static_cast<cuuint64_t>(count > 1 ? elements * kBytes : 16); };

  cuuint64_t sizes[4] = {at_least_one(shape.columns), at_least_one(shape.rows), at_least_one(shape.heads),
                         at_least_one(shape.batch)};
  cuuint64_t strides[3] = {stride(shape.rows, shape.row_stride), stride(shape.heads, shape.head_stride),
                           stride(shape.batch, shape.batch_stride)};
  if (shape.ragged) {
    const cuuint64_t before = sizes[1] * strides[0];
    if (before > reinterpret_cast<uintptr_t>(base))
      throw std::runtime_error("attention: " + std::to_string(shape.rows) + " packed rows of " + std::to_string(strides[0]) +
                               " bytes lie at an address below their size, which the copy engine cannot describe");
    base -= before;
    sizes[3] = at_least_one(shape.rows + 1);
    strides[2] = strides[0];
  }
  const cuuint32_t box[4] = {64, static_cast<cuuint32_t>(box_rows), 1, 1};
  const cuuint32_t element_strides[4] = {1, 1, 1, 1};
  CUtensorMap made{};
  const CUresult result = encode_function()(&made, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4, base, sizes, strides, box,
                                            element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                            CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    throw std::runtime_error("attention: the copy engine refuses a tensor of " + std::to_string(shape.batch) + " x " +
                             std::to_string(shape.rows) + " rows, " + std::to_string(shape.heads) + " heads, " +
                             std::to_string(shape.columns) + " columns with strides " + std::to_string(shape.batch_stride) +
                             ", " + std::to_string(shape.row_stride) + ", " + std::to_string(shape.head_stride) +
                             " (the address must be a multiple of 16 bytes and each stride of 8 elements)");
  }
  std::memcpy(map, &made, sizeof made);
}

}  // namespace deckle::kernels::cuda::tile
