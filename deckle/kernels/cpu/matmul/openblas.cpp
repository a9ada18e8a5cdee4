// The kernels that OpenBLAS selects, once a process.
//
// OpenBLAS is told of a core by the environment alone, which is no thread's to write while another reads it. So it is told when
// Deckle is loaded: before main, and before the program has threads. What remains is a program that loads Deckle later (dlopen)
// while another of its threads reads the environment or multiplies by OpenBLAS, and only where a core is to be named at all:
// where DECKLE_CPU is set, or the processor is newer than OpenBLAS.

#include "deckle/kernels/cpu/matmul/openblas.h"

#include <cblas.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "deckle/base/cpu_cap.h"
#include "deckle/base/error.h"

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
  const bool unknown = std::getenv(kCoreType) == nullptr && std::string_view(openblas_get_corename()) == "Prescott";
  if (asked_isa() == nullptr && !unknown) return nullptr;
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

__attribute__((constructor)) void select_at_load() {
  try {
    prepare_openblas();
  } catch (...) {  // DECKLE_CPU names no set, as the first use of OpenBLAS will say again
  }
}

}  // namespace

void prepare_openblas() {
  static const bool selected = (select_kernels(), true);  // again where it threw
  static_cast<void>(selected);
}

}  // namespace deckle::kernels::cpu::matmul
