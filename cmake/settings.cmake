# How everything is compiled: C++20, position independent, one include root (the repository's), ccache where present.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

include(GNUInstallDirs)

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

find_program(DECKLE_CCACHE ccache)
if(DECKLE_CCACHE AND PROJECT_IS_TOP_LEVEL AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${DECKLE_CCACHE})
endif()

# Precompiled headers of other projects take a fifth off a build that no compiler cache helps. With ccache they would cost more
# than they bring: a precompiled header differs from folder to folder, so that no other folder's objects serve.
set(use_precompiled_headers ON)
if(CMAKE_CXX_COMPILER_LAUNCHER)
  set(use_precompiled_headers OFF)
endif()
if(DEFINED ENV{DECKLE_PRECOMPILED_HEADERS})
  set(use_precompiled_headers $ENV{DECKLE_PRECOMPILED_HEADERS})
endif()
option(DECKLE_PRECOMPILED_HEADERS
  "Precompile the standard library's and fmt's headers, join the generator's files (default: where no compiler cache is)"
  ${use_precompiled_headers})
if(DECKLE_PRECOMPILED_HEADERS)
  set(CMAKE_CXX_COMPILER_LAUNCHER "")  # ccache knows nothing of them
endif()

# deckle_precompile_headers(TARGET [HEADERS...]): those that nearly every file includes, and HEADERS. Never Deckle's own: a file
# that forgets to include one of these must not compile here.
function(deckle_precompile_headers target)
  if(DECKLE_PRECOMPILED_HEADERS)
    target_precompile_headers(${target} PRIVATE <algorithm> <cmath> <cstdint> <functional> <limits> <memory> <optional> <span>
      <string> <vector> <fmt/format.h> <fmt/ranges.h> ${ARGN})
  endif()
endfunction()

# The same for kernels, with the processor's own header, which takes 0.7 to 1 second in each file with vectors. Once it is
# precompiled, GCC 12 warns of what its intrinsics leave undefined on purpose.
function(deckle_precompile_kernel_headers target)
  set(headers "")
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    set(headers <immintrin.h>)
  endif()
  deckle_precompile_headers(${target} ${headers})
  if(DECKLE_PRECOMPILED_HEADERS AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized)
  endif()
endfunction()

set(DECKLE_GENERATED_DIR ${PROJECT_BINARY_DIR}/generated)

add_library(deckle_settings INTERFACE)
target_compile_features(deckle_settings INTERFACE cxx_std_20)
target_include_directories(deckle_settings INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<BUILD_INTERFACE:${DECKLE_GENERATED_DIR}>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

# Warnings are for the code of this repository alone: linked privately, so that they reach nobody who links the library.
add_library(deckle_warnings INTERFACE)
target_compile_options(deckle_warnings INTERFACE -Wall -Wextra -Wno-missing-field-initializers
  $<$<BOOL:${DECKLE_WERROR}>:-Werror>)
