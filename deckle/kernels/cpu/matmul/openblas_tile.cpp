// One float64 matrix product tile by OpenBLAS.                                     c[m, n] = a[m, k] b[k, n]

#include "deckle/kernels/cpu/matmul/openblas_tile.h"

#include <cblas.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>

#include "deckle/base/cpu_cap.h"
#include "deckle/kernels/cpu/matmul/single_thread.h"

// OpenBLAS chooses its kernels when it is loaded. These two exported functions let it choose again; a build for one core
// type only has neither.
extern "C" {
__attribute__((weak)) void gotoblas_dynamic_init();
__attribute__((weak)) void gotoblas_dynamic_quit();
}

namespace deckle::kernels::cpu::matmul {
namespace {

constexpr const char* kCoreType = "OPENBLAS_CORETYPE";

void cap_instruction_set() {
  const char* cap = std::getenv("DECKLE_CPU");
  if (cap == nullptr || *cap == '\0' || gotoblas_dynamic_init == nullptr || gotoblas_dynamic_quit == nullptr) return;
  const char* core = cpu_isa() == CpuIsa::sse2 ? "Prescott" : cpu_isa() == CpuIsa::avx2 ? "Haswell" : "SkylakeX";
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

}  // namespace

void openblas_tile(const TileProduct& tile) {
  static std::once_flag capped;
  std::call_once(capped, cap_instruction_set);
  const SingleThread alone;
  auto* c = static_cast<double*>(tile.c);
  if (tile.bias != nullptr && !tile.accumulate) {
    const auto* bias = static_cast<const double*>(tile.bias);
    for (int64_t row = 0; row < tile.m; ++row) std::copy_n(bias, tile.n, c + row * tile.c_leading);
  }
  const double beta = tile.accumulate || tile.bias != nullptr ? 1.0 : 0.0;
  cblas_dgemm(CblasRowMajor, tile.a.transposed ? CblasTrans : CblasNoTrans, tile.b.transposed ? CblasTrans : CblasNoTrans,
              static_cast<blasint>(tile.m), static_cast<blasint>(tile.n), static_cast<blasint>(tile.k), 1.0,
              static_cast<const double*>(tile.a.data), static_cast<blasint>(tile.a.leading),
              static_cast<const double*>(tile.b.data), static_cast<blasint>(tile.b.leading), beta, c,
              static_cast<blasint>(tile.c_leading));
}

}  // namespace deckle::kernels::cpu::matmul
