# CUDA kernels: flags, and the translation units generated from ops/instances.yaml. Used by deckle/kernels/cuda,
# alone or within the library.

set(DECKLE_CUDA_LAUNCHER ${CMAKE_CURRENT_LIST_DIR}/checked_nvcc)
set(DECKLE_CUDA_CACHE "")
if(DECKLE_CCACHE)  # where find_program finds none, it says so in the variable
  set(DECKLE_CUDA_CACHE ${DECKLE_CCACHE})
  list(APPEND DECKLE_CUDA_LAUNCHER ${DECKLE_CCACHE})
endif()
set(DECKLE_CUDA_HOPPER_FLAGS -std=c++20 -gencode=arch=compute_90a,code=sm_90a -Xptxas -v)

# Flags for machine code of each of the architectures, and PTX of the first for every GPU that is newer. All is assembled from the
# PTX of `from`, or where that is `each` compiled for each.
function(deckle_gencodes result from)
  set(flags)
  foreach(architecture IN LISTS ARGN)
    set(virtual ${from})
    if(from STREQUAL each)
      set(virtual ${architecture})
    endif()
    list(APPEND flags -gencode=arch=compute_${virtual},code=sm_${architecture})
  endforeach()
  list(GET ARGN 0 first)
  list(APPEND flags -gencode=arch=compute_${first},code=compute_${first})
  set(${result} ${flags} PARENT_SCOPE)
endfunction()

# The kernels behind ops: machine code for each of these, and PTX of the lowest for every GPU that is newer. Most are compiled
# once, to that PTX, from which the assembler makes all machine code; those with instructions or sizes of their own for a newer
# GPU are compiled for each (deckle_cuda_module).
set(DECKLE_CUDA_ARCHITECTURES "80;90" CACHE STRING
    "Compute capabilities, 80 and newer, that the kernels of ops are built for, and attention's portable ones")
set(architectures ${DECKLE_CUDA_ARCHITECTURES})
list(SORT architectures COMPARE NATURAL)
deckle_gencodes(DECKLE_CUDA_OPS_EACH_FLAGS each ${architectures})
list(TRANSFORM architectures REPLACE "[a-z]+$" "")
list(REMOVE_DUPLICATES architectures)
list(GET architectures 0 lowest)
deckle_gencodes(DECKLE_CUDA_OPS_FLAGS ${lowest} ${architectures})

# The portable kernels of attention: the same, but for Hopper, which has kernels of its own and compiles the PTX of sm_80 for what
# these leave. Each takes two minutes of a processor.
set(DECKLE_CUDA_PORTABLE_ARCHITECTURES "" CACHE STRING
    "Other compute capabilities for the portable attention kernels than those of DECKLE_CUDA_ARCHITECTURES; PTX of the first too")
set(portable ${DECKLE_CUDA_PORTABLE_ARCHITECTURES})
if(NOT portable)
  set(portable ${DECKLE_CUDA_ARCHITECTURES})
  list(FILTER portable EXCLUDE REGEX "^90")
  list(SORT portable COMPARE NATURAL)
  if(NOT "${portable}" MATCHES "^8" AND DECKLE_CUDA_ARCHITECTURES MATCHES "90")
    list(PREPEND portable 80)
  endif()
endif()
deckle_gencodes(DECKLE_CUDA_PORTABLE_FLAGS each ${portable})
list(PREPEND DECKLE_CUDA_PORTABLE_FLAGS -std=c++20 -Xptxas -v)

# Sets `result` to the lines of `- {key: value, ...}` in ops/instances.yaml whose family and kernel match, each as
# "key=value|key=value".
function(deckle_read_instances result family kernel)
  set(file ${DECKLE_ROOT}/ops/instances.yaml)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(STRINGS ${file} lines)
  set(found)
  set(number 0)
  foreach(line IN LISTS lines)
    math(EXPR number "${number} + 1")
    if(line MATCHES "^- {family: ${family}, kernel: ${kernel}, (.*)}$")
      string(REPLACE ", " "|" entry "${CMAKE_MATCH_1}")
      string(REPLACE ": " "=" entry "${entry}")
      list(APPEND found "${entry}")
    elseif(NOT line MATCHES "^- {family: [a-z_/]+, kernel: [a-z_]+, .*}$" AND NOT line MATCHES "^(#.*)?$")
      message(FATAL_ERROR "${file}:${number}: expected `- {family: ..., kernel: ..., ...}`, got `${line}`")
    endif()
  endforeach()
  set(${result} "${found}" PARENT_SCOPE)
endfunction()

# Value of `key` in one entry.
function(deckle_instance_value result entry key)
  if(NOT "|${entry}|" MATCHES "[|]${key}=([^|]*)[|]")
    message(FATAL_ERROR "ops/instances.yaml: an instance without ${key}: ${entry}")
  endif()
  set(${result} ${CMAKE_MATCH_1} PARENT_SCOPE)
endfunction()

# Writes `path` only when its text changes, so that nothing is rebuilt for nothing.
function(deckle_write_if_changed path text)
  if(EXISTS ${path})
    file(READ ${path} old)
    if(old STREQUAL text)
      return()
    endif()
  endif()
  file(WRITE ${path} "${text}")
endfunction()
