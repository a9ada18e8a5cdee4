# Packages that the library links; tests, tools and benchmarks look for their own.

find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(fmt 9 REQUIRED)
find_package(Threads REQUIRED)

find_library(DECKLE_HWY hwy REQUIRED)
find_path(DECKLE_HWY_INCLUDE hwy/highway.h REQUIRED)

# oneDNN's own CMake configuration asks for OpenCL, which nothing here uses.
find_library(DECKLE_DNNL dnnl REQUIRED)
find_path(DECKLE_DNNL_INCLUDE oneapi/dnnl/dnnl.hpp REQUIRED)

# The OpenMP build of OpenBLAS: the pthread build would start a second pool of threads.
find_library(DECKLE_OPENBLAS openblas
  PATHS /usr/lib/x86_64-linux-gnu/openblas-openmp /usr/lib/aarch64-linux-gnu/openblas-openmp NO_DEFAULT_PATH)
find_path(DECKLE_OPENBLAS_INCLUDE cblas.h
  PATHS /usr/include/x86_64-linux-gnu/openblas-openmp /usr/include/aarch64-linux-gnu/openblas-openmp NO_DEFAULT_PATH)
if(NOT DECKLE_OPENBLAS OR NOT DECKLE_OPENBLAS_INCLUDE)
  message(FATAL_ERROR "OpenBLAS for OpenMP (Debian: libopenblas-openmp-dev) is not where Debian puts it: "
    "set DECKLE_OPENBLAS to the library and DECKLE_OPENBLAS_INCLUDE to the folder of cblas.h")
endif()
