// One product, or a batch of them, by cuBLASLt. It knows column-major matrices: a row-major product a b is the column-major one
// of the transposes, bT aT. Which algorithm runs is asked once for each shape and kept.
#include "deckle/kernels/cuda/matmul/product.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>

#include "deckle/base/error.h"
#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/error.h"
#include "deckle/core/cuda/memory.h"
#include "deckle/core/cuda/messages.h"
#include "deckle/kernels/cuda/matmul/cublaslt.h"
#include "deckle/kernels/cuda/matmul/small_product.h"
#include "deckle/kernels/cuda/pointwise/copy.h"

namespace deckle::kernels::cuda {

namespace matmul {
namespace {

constexpr int64_t kWorkspace = 32 << 20;
constexpr size_t kMostPrepared = 4096;
constexpr int64_t kMostMatrices = 1 << 20;  // of one call: cuBLASLt counts them in 32 bits

void check_status(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  deckle::cuda::check_runtime("a product");  // which knows whether the GPU is the cause
  deckle::cuda::fail_product(what, static_cast<int>(status));
}

/// An operand as cuBLASLt sees it: column-major [rows, columns] with a leading dimension.
struct Operand {
  int64_t rows, columns, leading, batch;
  bool transposed;
};

/// The transpose of `matrix` in column-major order, which is the matrix itself in row-major order. False: neither its rows nor
/// its columns are contiguous.
bool transpose_of(const Matrices& matrix, Operand& operand) {
  if (matrix.column == 1 || matrix.columns == 1) {
    const int64_t leading = matrix.rows == 1 ? std::max<int64_t>(matrix.columns, 1) : matrix.row;
    if (leading >= matrix.columns && (matrix.column == 1 || matrix.columns == 1)) {
      operand = {matrix.columns, matrix.rows, leading, matrix.batch, false};
      return true;
    }
  }
  if (matrix.row == 1 || matrix.rows == 1) {
    const int64_t leading = matrix.columns == 1 ? std::max<int64_t>(matrix.rows, 1) : matrix.column;
    if (leading >= matrix.rows) {
      operand = {matrix.rows, matrix.columns, leading, matrix.batch, true};
      return true;
    }
  }
  return false;
}

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::float64:
      return CUDA_R_64F;
    case DType::bfloat16:
      return CUDA_R_16BF;
    case DType::float16:
      return CUDA_R_16F;
    default:
      return CUDA_R_32F;
  }
}

uint32_t alignment_of(const void* data) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  return static_cast<uint32_t>(std::min<uintptr_t>(256, address & (~address + 1)));
}

/// What decides on an algorithm.
struct Key {
  std::array<int64_t, 16> numbers;
  bool operator==(const Key&) const = default;
};
struct KeyHash {
  size_t operator()(const Key& key) const {
    uint64_t hash = 1469598103934665603u;
    for (const int64_t number : key.numbers) hash = (hash ^ static_cast<uint64_t>(number)) * 1099511628211u;
    return hash;
  }
};

/// A product as cuBLASLt runs it.
struct Prepared {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
  size_t workspace = 0;
};

void destroy(const Prepared& product) {
  const CublasLt& lt = cublaslt();
  if (product.operation != nullptr) lt.desc_destroy(product.operation);
  for (const cublasLtMatrixLayout_t layout : {product.a, product.b, product.c}) {
    if (layout != nullptr) lt.layout_destroy(layout);
  }
}

cublasLtMatrixLayout_t layout_of(const Operand& operand, cudaDataType_t type, int64_t batch) {
  const CublasLt& lt = cublaslt();
  cublasLtMatrixLayout_t layout = nullptr;
  check_status(lt.layout_create(&layout, type, static_cast<uint64_t>(operand.rows), static_cast<uint64_t>(operand.columns),
                                operand.leading),
               "a layout");
  if (batch > 1) {
    const int32_t count = static_cast<int32_t>(batch);
    check_status(lt.layout_set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof(count)), "a layout");
    check_status(lt.layout_set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &operand.batch, sizeof(operand.batch)),
                 "a layout");
  }
  return layout;
}

/// One handle and the prepared products of a device; whoever launches holds the mutex, for the bias is a part of the operation.
struct State {
  std::mutex mutex;
  cublasLtHandle_t handle = nullptr;
  std::unordered_map<Key, Prepared, KeyHash> products;
};

State& state_of(Device device) {
  static auto* const states = new std::array<State, 64>;  // leaked: the driver may be gone before them
  return (*states)[static_cast<size_t>(device.index)];
}

Prepared prepare(cublasLtHandle_t handle, DType dtype, const Operand& left, const Operand& right, const Operand& out,
                 int64_t batch, bool bias, const std::array<uint32_t, 3>& alignments) {
  const CublasLt& lt = cublaslt();
  Prepared product;
  const cudaDataType_t type = type_of(dtype);
  const bool wide = dtype == DType::float64;
  check_status(lt.desc_create(&product.operation, wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F, wide ? CUDA_R_64F : CUDA_R_32F),
               "a product");
  const cublasOperation_t transposes[] = {left.transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                                          right.transposed ? CUBLAS_OP_T : CUBLAS_OP_N};
  check_status(lt.desc_set(product.operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposes[0], sizeof(transposes[0])), "a product");
  check_status(lt.desc_set(product.operation, CUBLASLT_MATMUL_DESC_TRANSB, &transposes[1], sizeof(transposes[1])), "a product");
  if (bias) {
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    check_status(lt.desc_set(product.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof(epilogue)), "a bias");
  }
  product.a = layout_of(left, type, batch);
  product.b = layout_of(right, type, batch);
  product.c = layout_of(out, type, batch);
  cublasLtMatmulPreference_t preference = nullptr;
  check_status(lt.preference_create(&preference), "a choice");
  const size_t workspace = kWorkspace;
  lt.preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof(workspace));
  lt.preference_set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &alignments[0], sizeof(uint32_t));
  lt.preference_set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &alignments[1], sizeof(uint32_t));
  lt.preference_set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &alignments[2], sizeof(uint32_t));
  lt.preference_set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &alignments[2], sizeof(uint32_t));
  if (dtype == DType::bfloat16 || dtype == DType::float16) {
    // Sums of a product that several blocks share are added up in float32, not in the halves of the result.
    const uint32_t sums = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    lt.preference_set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &sums, sizeof(sums));
  }
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t status =
      lt.heuristic(handle, product.operation, product.a, product.b, product.c, product.c, preference, 1, &found, &count);
  lt.preference_destroy(preference);
  if (status != CUBLAS_STATUS_SUCCESS || count == 0) {
    destroy(product);
    throw Error(ErrorKind::runtime,
                "cuBLASLt has no algorithm for a product of these shapes (status " + std::to_string(status) + ")");
  }
  product.algorithm = found.algo;
  product.workspace = found.workspaceSize;
  return product;
}

View view_of(const Matrices& matrix, DType dtype, int64_t batch) {
  View view;
  view.data = matrix.data;
  view.dtype = dtype;
  view.defined = true;
  view.ndim = 3;
  view.sizes[0] = batch;
  view.sizes[1] = matrix.rows;
  view.sizes[2] = matrix.columns;
  view.strides[0] = matrix.batch;
  view.strides[1] = matrix.row;
  view.strides[2] = matrix.column;
  return view;
}

/// The same matrices in row-major order, in `memory`.
Matrices row_major(const Context& context, DType dtype, const Matrices& matrix, int64_t batch, void* memory) {
  const Matrices result{memory, matrix.rows, matrix.columns, matrix.columns, 1, matrix.rows * matrix.columns};
  copy(context, view_of(matrix, dtype, batch), view_of(result, dtype, batch));
  return result;
}

void run(const Context& context, DType dtype, const Matrices& a, const Matrices& b, const Matrices& result, int64_t batch,
         const void* bias, bool accumulates) {
  Operand left{}, right{};
  if (Operand unused{}; !transpose_of(a, unused)) {
    const deckle::cuda::Block memory(batch * a.rows * a.columns * item_size(dtype), context.device);
    return run(context, dtype, row_major(context, dtype, a, batch, memory.as<void>()), b, result, batch, bias, accumulates);
  }
  if (Operand unused{}; !transpose_of(b, unused)) {
    const deckle::cuda::Block memory(batch * b.rows * b.columns * item_size(dtype), context.device);
    return run(context, dtype, a, row_major(context, dtype, b, batch, memory.as<void>()), result, batch, bias, accumulates);
  }
  transpose_of(b, left);  // (a b)T = bT aT
  transpose_of(a, right);
  const Operand out{result.columns, result.rows, std::max<int64_t>(result.columns, 1), result.batch, false};
  const CublasLt& lt = cublaslt();
  State& state = state_of(context.device);
  const std::lock_guard lock(state.mutex);
  const deckle::cuda::DeviceGuard guard(context.device);
  if (state.handle == nullptr) check_status(lt.create(&state.handle), "the handle");
  const std::array<uint32_t, 3> alignments = {alignment_of(b.data), alignment_of(a.data), alignment_of(result.data)};
  const Key key{{static_cast<int64_t>(dtype), left.rows, left.columns, left.leading, left.batch, left.transposed, right.rows,
                 right.columns, right.leading, right.batch, right.transposed, out.batch, batch,
                 alignments[0] * 512 + alignments[1], alignments[2], bias != nullptr}};
  auto found = state.products.find(key);
  if (found == state.products.end()) {
    if (state.products.size() >= kMostPrepared) {
      for (const auto& [shape, product] : state.products) destroy(product);
      state.products.clear();
    }
    found = state.products.emplace(key, prepare(state.handle, dtype, left, right, out, batch, bias != nullptr, alignments)).first;
  }
  const Prepared& product = found->second;
  if (bias != nullptr)
    check_status(lt.desc_set(product.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof(bias)), "a bias");
  const deckle::cuda::Block workspace(static_cast<int64_t>(product.workspace), context.device);
  const double one = 1, of_result = accumulates ? 1 : 0;
  const float one_single = 1, of_result_single = accumulates ? 1 : 0;
  const bool wide = dtype == DType::float64;
  check_status(lt.matmul(state.handle, product.operation, wide ? static_cast<const void*>(&one) : &one_single, b.data, product.a,
                         a.data, product.b, wide ? static_cast<const void*>(&of_result) : &of_result_single, result.data,
                         product.c, result.data, product.c, &product.algorithm, workspace.as<void>(), product.workspace,
                         deckle::cuda::stream_handle(context.device)),
               "a product");
  deckle::cuda::check_launch(context.device);
}

}  // namespace

void product(const Context& context, DType dtype, const Matrices& a, const Matrices& b, const Matrices& result, int64_t batch,
             const void* bias, bool accumulates) {
  if (!is_floating(dtype)) throw Error("the operands are " + to_string(dtype) + " (expected a floating dtype)");
  if (batch == 0 || result.rows == 0 || result.columns == 0) return;
  if (batch == 1 && small_product(context, dtype, a, b, result, bias, accumulates)) return;
  for (int64_t first = 0; first < batch; first += kMostMatrices) {
    const auto from_first = [&](const Matrices& all) {
      Matrices rest = all;
      rest.data = static_cast<char*>(all.data) + first * all.batch * item_size(dtype);
      return rest;
    };
    run(context, dtype, from_first(a), from_first(b), from_first(result), std::min(batch - first, kMostMatrices), bias,
        accumulates);
  }
}

}  // namespace matmul
}  // namespace deckle::kernels::cuda
