# One object library per folder of deckle/, all linked into one library, deckle::deckle.

set(DECKLE_MODULES "" CACHE INTERNAL "")

# deckle_module(NAME): every .cpp of deckle/NAME. All modules share one set of precompiled headers.
function(deckle_module name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/deckle/${name}/*.cpp)
  if(DECKLE_CUDA)
    list(FILTER sources EXCLUDE REGEX "/cuda/fake(_launch)?[.]cpp$")
  else()
    list(FILTER sources EXCLUDE REGEX "/cuda/(copy|device|graph|pool|fake_launch)[.]cpp$")
  endif()
  if(sources)
    # What every call makes is a struct or two of 100 to 250 bytes. GCC clears them by a string instruction, which takes 10 ns to
    # begin.
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
      set_source_files_properties(
        ${PROJECT_SOURCE_DIR}/deckle/core/tensor.cpp ${PROJECT_SOURCE_DIR}/deckle/dispatch/view.cpp
        ${PROJECT_SOURCE_DIR}/deckle/ops/launch.cpp ${PROJECT_SOURCE_DIR}/deckle/autograd/history.cpp
        ${PROJECT_SOURCE_DIR}/deckle/autograd/saved_tensor.cpp
        ${PROJECT_SOURCE_DIR}/deckle/kernels/cpu/pointwise/walk.cpp PROPERTIES
        COMPILE_OPTIONS -mmemset-strategy=vector_loop:256:noalign,libcall:-1:noalign SKIP_PRECOMPILE_HEADERS ON)
    endif()
    add_library(deckle_${name} OBJECT ${sources})
    target_link_libraries(deckle_${name} PRIVATE deckle_warnings PUBLIC deckle_settings fmt::fmt OpenMP::OpenMP_CXX)
    if(TARGET deckle_base AND DECKLE_PRECOMPILED_HEADERS AND NOT name STREQUAL base)
      target_precompile_headers(deckle_${name} REUSE_FROM deckle_base)
    else()
      deckle_precompile_headers(deckle_${name})
    endif()
    if(DECKLE_CUDA AND name STREQUAL core)
      target_include_directories(deckle_core PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
    elseif(DECKLE_CUDA AND name STREQUAL ops)
      target_compile_definitions(deckle_ops PRIVATE DECKLE_WITH_CUDA)
    endif()
    set(DECKLE_MODULES ${DECKLE_MODULES} deckle_${name} CACHE INTERNAL "")
  endif()
endfunction()

# The kernels behind ops on GPUs: those of deckle/kernels/cuda but attention's, which are a project of their own, and the
# generated ones.
function(deckle_cuda_module)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/deckle/kernels/cuda/*/*.cu
    ${PROJECT_SOURCE_DIR}/deckle/kernels/cuda/*/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/cuda/(arch|tile|attention)/")
  add_library(deckle_kernels_cuda_ops OBJECT ${sources} ${DECKLE_GENERATED_CUDA_KERNELS})
  set_target_properties(deckle_kernels_cuda_ops PROPERTIES CUDA_ARCHITECTURES OFF CUDA_STANDARD_REQUIRED OFF
    CUDA_RUNTIME_LIBRARY Static CUDA_COMPILER_LAUNCHER "${DECKLE_CUDA_CACHE}")
  target_compile_options(deckle_kernels_cuda_ops PRIVATE -O3
    "$<$<COMPILE_LANGUAGE:CUDA>:-std=c++20;--expt-relaxed-constexpr>")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${sources})  # whose text says which flags they get
  foreach(source IN LISTS sources DECKLE_GENERATED_CUDA_KERNELS)
    set(flags ${DECKLE_CUDA_OPS_FLAGS})
    if(EXISTS ${source})
      file(STRINGS ${source} by_architecture REGEX "reduce::run|cub/device" LIMIT_COUNT 1)
      if(by_architecture)  # reduce/behind.cuh's two instructions, without which they wait; CUB's sizes
        set(flags ${DECKLE_CUDA_OPS_EACH_FLAGS} -DDECKLE_CUDA_EACH_ARCHITECTURE)
      endif()
    endif()
    if(source MATCHES "[.]cu$")
      set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS ${flags})
    endif()
  endforeach()
  target_include_directories(deckle_kernels_cuda_ops PRIVATE ${PROJECT_SOURCE_DIR} ${DECKLE_GENERATED_DIR})
  set(DECKLE_MODULES ${DECKLE_MODULES} deckle_kernels_cuda_ops CACHE INTERNAL "")
endfunction()

# deckle_kernels_module(BACKEND): every .cpp of deckle/kernels/BACKEND, compiled for speed; under a sanitizer like all else, where
# those of attention take a fifth as long to compile.
function(deckle_kernels_module name)
  set(level -O3)
  if(CMAKE_CXX_FLAGS MATCHES "-fsanitize")
    set(level -O1)
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/deckle/kernels/${name}/*.cpp)
  add_library(deckle_kernels_${name} OBJECT ${sources})
  target_compile_options(deckle_kernels_${name} PRIVATE $<$<CONFIG:Release,RelWithDebInfo>:${level}>)
  target_include_directories(deckle_kernels_${name} PRIVATE
    ${DECKLE_HWY_INCLUDE} ${DECKLE_DNNL_INCLUDE} ${DECKLE_OPENBLAS_INCLUDE})
  target_link_libraries(deckle_kernels_${name} PRIVATE deckle_warnings PUBLIC deckle_settings fmt::fmt OpenMP::OpenMP_CXX)
  deckle_precompile_kernel_headers(deckle_kernels_${name})
  set_source_files_properties(${PROJECT_SOURCE_DIR}/deckle/kernels/${name}/random/randn.cpp PROPERTIES
    COMPILE_OPTIONS -ffp-contract=off SKIP_PRECOMPILE_HEADERS ON)  # its numbers are the same on every instruction set
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")  # clang 16 crashes when it optimises these bfloat16 vectors
    set_source_files_properties(${PROJECT_SOURCE_DIR}/deckle/kernels/${name}/simd/bf16_dot.cpp PROPERTIES
      COMPILE_OPTIONS -O0 SKIP_PRECOMPILE_HEADERS ON)
  endif()
  set(DECKLE_MODULES ${DECKLE_MODULES} deckle_kernels_${name} CACHE INTERNAL "")
endfunction()

# The library itself, once all modules are known.
function(deckle_library)
  add_library(deckle)
  add_library(deckle::deckle ALIAS deckle)
  foreach(module ${DECKLE_MODULES})
    target_sources(deckle PRIVATE $<TARGET_OBJECTS:${module}>)
    if(TARGET deckle_generated_sources AND NOT module STREQUAL deckle_generated)
      add_dependencies(${module} deckle_generated_sources)
    endif()
  endforeach()
  set_target_properties(deckle PROPERTIES LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION} SOVERSION 0)
  if(NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize")  # whose symbols come with the program
    # A missing kernel is an error here, not in every program. The library's own calls are direct, not by the loader's table: an
    # op on small tensors makes a hundred of them.
    target_link_options(deckle PRIVATE -Wl,--no-undefined -Wl,-Bsymbolic-functions)
  endif()
  target_link_libraries(deckle PUBLIC deckle_settings fmt::fmt OpenMP::OpenMP_CXX
    PRIVATE ${DECKLE_HWY} ${DECKLE_DNNL} ${DECKLE_OPENBLAS} Threads::Threads $<$<BOOL:${DECKLE_CUDA}>:CUDA::cudart_static>)
endfunction()

# The library with fake devices in place of GPUs, for tests of a build with CUDA where there is no GPU: the same objects but those
# that see the driver. It has the library's name, so that a test program takes it when it is loaded first (LD_PRELOAD).
function(deckle_fake_library)
  set(core ${PROJECT_SOURCE_DIR}/deckle/core/cuda)
  add_library(deckle_core_fake OBJECT ${core}/fake.cpp ${core}/fake_launch.cpp)
  target_link_libraries(deckle_core_fake PRIVATE deckle_warnings PUBLIC deckle_settings fmt::fmt OpenMP::OpenMP_CXX)
  target_include_directories(deckle_core_fake PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
  add_library(deckle_fake SHARED $<TARGET_OBJECTS:deckle_core_fake> $<TARGET_OBJECTS:deckle_kernels_cuda>
    $<TARGET_OBJECTS:deckle_kernels_cuda_portable>)
  foreach(module ${DECKLE_MODULES})
    target_sources(deckle_fake PRIVATE "$<FILTER:$<TARGET_OBJECTS:${module}>,EXCLUDE,core/cuda/(copy|device|graph|pool)[.]cpp>")
  endforeach()
  set_target_properties(deckle_fake PROPERTIES LINKER_LANGUAGE CXX OUTPUT_NAME deckle SOVERSION 0
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fake)
  target_link_options(deckle_fake PRIVATE -Wl,--no-undefined -Wl,-Bsymbolic-functions)
  target_link_libraries(deckle_fake PRIVATE deckle_settings fmt::fmt OpenMP::OpenMP_CXX ${DECKLE_HWY} ${DECKLE_DNNL}
    ${DECKLE_OPENBLAS} Threads::Threads CUDA::cudart_static)
endfunction()
