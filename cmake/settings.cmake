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
