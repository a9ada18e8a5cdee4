# The generator and what it makes. Entries are compiled into ${DECKLE_GENERATED_DIR}, the second include root.

if(TARGET opgen OR DECKLE_OPGEN)
  # The caller brings the generator (cross compilation, or an installed Deckle).
else()
  add_subdirectory(${CMAKE_CURRENT_LIST_DIR}/../opgen ${CMAKE_BINARY_DIR}/opgen EXCLUDE_FROM_ALL)
endif()
if(NOT DECKLE_OPGEN)
  set(DECKLE_OPGEN $<TARGET_FILE:opgen>)
endif()
if(NOT DECKLE_OPS_DIR)  # an installed Deckle sets it
  get_filename_component(ops_dir ${CMAKE_CURRENT_LIST_DIR}/../ops ABSOLUTE)
  set(DECKLE_OPS_DIR ${ops_dir} CACHE INTERNAL "")
endif()

# How many files the ops of an entry file are spread over: about fifteen ops each.
function(deckle_opgen_shards entry_file variable)
  file(STRINGS ${entry_file} ops REGEX "^ *- +func:")
  list(LENGTH ops count)
  math(EXPR shards "(${count} + 14) / 15")
  if(shards LESS 1)
    set(shards 1)
  endif()
  set(${variable} ${shards} PARENT_SCOPE)
endfunction()

# deckle_opgen(NAME ENTRIES files... [KNOWN files...] DIR dir [TABLE] [TESTS dir]): runs the generator; sets NAME_SOURCES,
# NAME_KERNELS, NAME_HEADERS, NAME_TESTS and NAME_NESTED_TESTS, and makes the target NAME_sources that everything including a
# generated header depends on.
function(deckle_opgen name)
  cmake_parse_arguments(arg "CORE" "DIR;TESTS" "ENTRIES;KNOWN" ${ARGN})
  set(sources "")
  set(kernels "")
  set(headers "")
  set(tests "")
  set(nested_tests "")
  set(specs "")
  foreach(entry_file ${arg_ENTRIES})
    get_filename_component(stem ${entry_file} NAME_WE)
    deckle_opgen_shards(${entry_file} shards)
    list(APPEND specs ${entry_file}=${shards})
    list(APPEND headers ${arg_DIR}/deckle/ops/generated/${stem}.h ${arg_DIR}/deckle/nested/generated/${stem}.h)
    list(APPEND sources ${arg_DIR}/deckle/nested/generated/nested_${stem}.cpp)
    math(EXPR last "${shards} - 1")
    foreach(shard RANGE ${last})
      list(APPEND sources ${arg_DIR}/deckle/ops/generated/${stem}_${shard}.cpp)
      list(APPEND kernels ${arg_DIR}/deckle/ops/generated/${stem}_kernels_${shard}.cpp)  # with or without a kernel in it
      if(arg_TESTS)
        list(APPEND tests ${arg_TESTS}/${stem}_${shard}_test.cpp)
        list(APPEND nested_tests ${arg_TESTS}/nested_${stem}_${shard}_test.cpp)
      endif()
    endforeach()
  endforeach()
  set(options "")
  if(arg_CORE)
    list(APPEND sources ${arg_DIR}/deckle/ops/generated/op_table.cpp)
    list(APPEND options --core)
  endif()
  if(arg_TESTS)
    list(APPEND options --tests ${arg_TESTS})
  endif()
  if(arg_KNOWN)
    list(APPEND options --known ${arg_KNOWN})
  endif()
  set(generator ${DECKLE_OPGEN})
  if(NOT generator)  # called from a project around Deckle
    set(generator $<TARGET_FILE:opgen>)
  endif()
  set(stamp ${arg_DIR}/${name}.stamp)
  list(GET arg_ENTRIES 0 first_entry)
  get_filename_component(root ${first_entry} DIRECTORY)  # messages name files below it, kernels are looked for in it
  if(arg_CORE)
    get_filename_component(root ${root}/.. ABSOLUTE)
  endif()
  add_custom_command(
    OUTPUT ${stamp}
    BYPRODUCTS ${sources} ${kernels} ${headers} ${tests} ${nested_tests}
    COMMAND ${generator} --functions ${DECKLE_OPS_DIR}/functions.yaml --entries ${specs} ${options} --out ${arg_DIR}
      --root ${root} --depfile ${stamp}.d --target ${stamp}
    COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
    DEPENDS ${generator} ${arg_ENTRIES} ${DECKLE_OPS_DIR}/functions.yaml
    DEPFILE ${stamp}.d
    COMMENT "opgen: ${name}"
    VERBATIM)
  add_custom_target(${name}_sources DEPENDS ${stamp})
  set(${name}_SOURCES ${sources} PARENT_SCOPE)
  set(${name}_KERNELS ${kernels} PARENT_SCOPE)
  set(${name}_TESTS ${tests} PARENT_SCOPE)
  set(${name}_NESTED_TESTS ${nested_tests} PARENT_SCOPE)
endfunction()

# The library's own ops: two more modules, and deckle_generated_sources for the others to wait for.
function(deckle_generate_ops)
  file(GLOB entries CONFIGURE_DEPENDS ${DECKLE_OPS_DIR}/*.yaml)
  list(FILTER entries EXCLUDE REGEX "/(functions|instances)\\.yaml$")
  deckle_opgen(deckle_generated ENTRIES ${entries} DIR ${DECKLE_GENERATED_DIR} TESTS ${DECKLE_GENERATED_DIR}/tests CORE)
  add_library(deckle_generated OBJECT ${deckle_generated_SOURCES})
  target_compile_options(deckle_generated PRIVATE $<$<CONFIG:Release,RelWithDebInfo>:-O1>)
  add_library(deckle_generated_kernels OBJECT ${deckle_generated_KERNELS})
  target_include_directories(deckle_generated_kernels PRIVATE ${DECKLE_HWY_INCLUDE})
  foreach(target deckle_generated deckle_generated_kernels)
    target_link_libraries(${target} PRIVATE deckle_warnings PUBLIC deckle_settings fmt::fmt OpenMP::OpenMP_CXX)
    add_dependencies(${target} deckle_generated_sources)
    deckle_precompile_headers(${target})
  endforeach()
  set(DECKLE_MODULES ${DECKLE_MODULES} deckle_generated deckle_generated_kernels CACHE INTERNAL "")
  set(DECKLE_GENERATED_TESTS ${deckle_generated_TESTS} CACHE INTERNAL "")
  set(DECKLE_GENERATED_NESTED_TESTS ${deckle_generated_NESTED_TESTS} CACHE INTERNAL "")
endfunction()

# deckle_add_ops(TARGET ENTRIES...): makes the ops of entry files part of TARGET, differentiable in all modes like Deckle's own.
# Their headers are deckle/ops/generated/<stem>.h, so no two entry files may have one stem; kernels that they claim are the
# target's own sources.
function(deckle_add_ops target)
  if(TARGET ${target}_ops_sources)
    message(FATAL_ERROR "deckle_add_ops: ${target} has ops already; name all entry files in one call")
  endif()
  set(entries "")
  foreach(file ${ARGN})
    get_filename_component(path ${file} ABSOLUTE)
    get_filename_component(stem ${file} NAME_WE)
    get_property(other GLOBAL PROPERTY DECKLE_OPS_OF_${stem})
    if(EXISTS ${DECKLE_OPS_DIR}/${stem}.yaml)
      set(other ${DECKLE_OPS_DIR}/${stem}.yaml)
    endif()
    if(other)
      message(FATAL_ERROR "deckle_add_ops: ${path} and ${other} would both be deckle/ops/generated/${stem}.h: rename your file")
    endif()
    set_property(GLOBAL PROPERTY DECKLE_OPS_OF_${stem} ${path})
    list(APPEND entries ${path})
  endforeach()
  file(GLOB known ${DECKLE_OPS_DIR}/*.yaml)
  list(FILTER known EXCLUDE REGEX "/(functions|instances)\\.yaml$")
  set(directory ${CMAKE_CURRENT_BINARY_DIR}/${target}_ops)
  deckle_opgen(${target}_ops ENTRIES ${entries} KNOWN ${known} DIR ${directory})
  find_path(DECKLE_HWY_INCLUDE hwy/highway.h REQUIRED)
  target_sources(${target} PRIVATE ${${target}_ops_SOURCES} ${${target}_ops_KERNELS})
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${directory}> PRIVATE ${DECKLE_HWY_INCLUDE})
  find_library(DECKLE_HWY hwy REQUIRED)
  target_link_libraries(${target} PRIVATE deckle::deckle ${DECKLE_HWY})
  add_dependencies(${target} ${target}_ops_sources)
endfunction()
