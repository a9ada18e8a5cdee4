// Finds cuBLASLt: the copy that the process has, $DECKLE_CUBLASLT, the loader's path, the toolkit's folder.
#include <dlfcn.h>

#include <cstdlib>
#include <initializer_list>
#include <string>

#include "deckle/core/cuda/messages.h"
#include "deckle/kernels/cuda/matmul/cublaslt.h"

namespace deckle::kernels::cuda::matmul {
namespace {

const std::string kName = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);

void* open() {
  if (void* const loaded = dlopen(kName.c_str(), RTLD_LAZY | RTLD_NOLOAD)) return loaded;
  const char* const given = std::getenv("DECKLE_CUBLASLT");
  for (const std::string& path : {std::string(given != nullptr ? given : ""), kName, "/usr/local/cuda/lib64/" + kName}) {
    if (path.empty()) continue;
    if (void* const found = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL)) return found;
  }
  deckle::cuda::fail_library(kName);
}

template <typename Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) deckle::cuda::fail_function(kName, name);
}

CublasLt load() {
  void* const library = open();
  CublasLt found{};
  find(library, "cublasLtCreate", found.create);
  find(library, "cublasLtMatmul", found.matmul);
  find(library, "cublasLtMatmulDescCreate", found.desc_create);
  find(library, "cublasLtMatmulDescDestroy", found.desc_destroy);
  find(library, "cublasLtMatmulDescSetAttribute", found.desc_set);
  find(library, "cublasLtMatrixLayoutCreate", found.layout_create);
  find(library, "cublasLtMatrixLayoutDestroy", found.layout_destroy);
  find(library, "cublasLtMatrixLayoutSetAttribute", found.layout_set);
  find(library, "cublasLtMatmulPreferenceCreate", found.preference_create);
  find(library, "cublasLtMatmulPreferenceDestroy", found.preference_destroy);
  find(library, "cublasLtMatmulPreferenceSetAttribute", found.preference_set);
  find(library, "cublasLtMatmulAlgoGetHeuristic", found.heuristic);
  return found;
}

}  // namespace

const CublasLt& cublaslt() {
  static const CublasLt functions = load();  // an error is tried again at the next product
  return functions;
}

}  // namespace deckle::kernels::cuda::matmul
