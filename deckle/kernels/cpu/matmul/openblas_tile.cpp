// One float32 or float64 matrix product tile by OpenBLAS.                                  c[m, n] = a[m, k] b[k, n]

#include "deckle/kernels/cpu/matmul/openblas_tile.h"

#include <cblas.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "deckle/base/cpu_cap.h"
#include "deckle/kernels/cpu/matmul/single_thread.h"

// OpenBLAS selects its kernels when it is loaded. These two exported functions make it select again; a build for a single core
// type lacks both.
extern "C" {
__attribute__((weak)) void gotoblas_dynamic_init();
__attribute__((weak)) void gotoblas_dynamic_quit();
}

namespace deckle::kernels::cpu::matmul {
namespace {

constexpr const char* kCoreType = "OPENBLAS_CORETYPE";

// The core whose kernels to use in place of OpenBLAS's own choice, or nullptr to leave that: DECKLE_CPU's where it is set; and a
// processor newer than the library is to it the oldest one (Emerald Rapids to 0.3.21: a fifth of the speed in float64).
const char* wanted_core() {
  const char* cap = std::getenv("DECKLE_CPU");
  const bool capped = cap != nullptr && *cap != '\0';
  const bool unknown = std::getenv(kCoreType) == nullptr && std::string_view(openblas_get_corename()) == "Prescott";
  if (!capped && !unknown) return nullptr;
  return cpu_isa() == CpuIsa::sse2 ? "Prescott" : cpu_isa() == CpuIsa::avx2 ? "Haswell" : "SkylakeX";
}

void select_kernels() {
  const char* core = wanted_core();
  if (core == nullptr || gotoblas_dynamic_init == nullptr || gotoblas_dynamic_quit == nullptr) return;
  const char* before = std::getenv(kCoreType);
  const std::optional<std::string> kept = before ? std::optional<std::string>(before) : std::nullopt;
  setenv(kCoreType, core, 1);
  gotoblas_dynamic_quit();
  gotoblas_dynamic_init();
  if (kept)
    setenv(kCoreType, kept->c_str(), 1);
  else
    unsetenv(kCoreType);
}

template <typename T, typename Gemm>
void multiply_by(Gemm gemm, const TileProduct& tile) {
  auto* c = static_cast<T*>(tile.c);
  if (tile.bias != nullptr && !tile.accumulate) {
    const auto* bias = static_cast<const T*>(tile.bias);
    for (int64_t row = 0; row < tile.m; ++row) std::copy_n(bias, tile.n, c + row * tile.c_leading);
  }
  const T beta = tile.accumulate || tile.bias != nullptr ? T{1} : T{0};
  gemm(CblasRowMajor, tile.a.transposed ? CblasTrans : CblasNoTrans, tile.b.transposed ? CblasTrans : CblasNoTrans,
       static_cast<blasint>(tile.m), static_cast<blasint>(tile.n), static_cast<blasint>(tile.k), T{1},
       static_cast<const T*>(tile.a.data), static_cast<blasint>(tile.a.leading), static_cast<const T*>(tile.b.data),
       static_cast<blasint>(tile.b.leading), beta, c, static_cast<blasint>(tile.c_leading));
}

}  // namespace

void openblas_tile(const TileProduct& tile, DType dtype) {
  static std::once_flag selected;
  std::call_once(selected, select_kernels);
  const SingleThread alone;
  if (dtype == DType::float64)
    multiply_by<double>(cblas_dgemm, tile);
  else
    multiply_by<float>(cblas_sgemm, tile);
}

}  // namespace deckle::kernels::cpu::matmul
