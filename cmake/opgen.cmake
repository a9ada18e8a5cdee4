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

# deckle_made_from(SOURCE LIST FILES...): adds generated files to a list of deckle_opgen, unless another source makes one of them.
macro(deckle_made_from source list)
  foreach(made ${ARGN})
    string(MD5 key "${made}")
    if(DEFINED made_from_${key})
      message(FATAL_ERROR "${made} would be made from ${source} and from ${made_from_${key}}: give one of the two another name")
    endif()
    set(made_from_${key} "${source}")
    list(APPEND ${list} "${made}")
  endforeach()
endmacro()

# deckle_opgen(NAME ENTRIES files... DIR dir TESTS dir [KNOWN files... | LAYOUT folder] [ROOT folder] [OPTIONS ...]): runs the
# generator; sets NAME_SOURCES, NAME_KERNELS, NAME_CUDA_KERNELS (with the option --cuda), NAME_TESTS and NAME_NESTED_TESTS, and
# makes the target NAME_sources that everything including a generated header depends on. Entries with a LAYOUT are those of
# another library; with KNOWN ones beside them, ops that tests add to Deckle's; else they are all of Deckle's.
function(deckle_opgen name)
  cmake_parse_arguments(arg "" "DIR;TESTS;LAYOUT;ROOT" "ENTRIES;KNOWN;OPTIONS" ${ARGN})
  if(arg_LAYOUT)
    set(ops ${arg_DIR}/${arg_LAYOUT})
    set(nested ${ops}/nested)
    set(nested_prefix "")
  else()
    set(ops ${arg_DIR}/deckle/ops/generated)
    set(nested ${arg_DIR}/deckle/nested/generated)
    set(nested_prefix nested_)
  endif()
  set(sources "")
  set(kernels "")
  set(cuda_kernels "")
  set(headers "")
  set(tests "")
  set(nested_tests "")
  set(specs "")
  if(NOT arg_KNOWN)
    deckle_made_from("the table of all ops" sources ${ops}/op_table.cpp)
    deckle_made_from("the table of all ops" table_headers ${ops}/op_table.h)
  endif()
  foreach(entry_file ${arg_ENTRIES})
    get_filename_component(stem ${entry_file} NAME_WLE)
    deckle_opgen_shards(${entry_file} shards)
    list(APPEND specs ${entry_file}=${shards})
    file(STRINGS ${entry_file} pointwise REGEX "pointwise:" LIMIT_COUNT 1)
    deckle_made_from(${entry_file} headers ${ops}/${stem}.h ${nested}/${stem}.h)
    deckle_made_from(${entry_file} sources ${nested}/${nested_prefix}${stem}.cpp)
    math(EXPR last "${shards} - 1")
    foreach(shard RANGE ${last})
      deckle_made_from(${entry_file} sources ${ops}/${stem}_${shard}.cpp)
      deckle_made_from(${entry_file} kernels ${ops}/${stem}_kernels_${shard}.cpp)  # with or without a kernel in it
      if(pointwise)  # each empty file would take nvcc three seconds
        deckle_made_from(${entry_file} cuda_kernels ${ops}/${stem}_kernels_${shard}.cu)
      endif()
      deckle_made_from(${entry_file} tests ${arg_TESTS}/${stem}_${shard}_test.cpp)
      deckle_made_from(${entry_file} nested_tests ${arg_TESTS}/nested_${stem}_${shard}_test.cpp)
    endforeach()
  endforeach()
  if(NOT arg_KNOWN AND NOT arg_LAYOUT)  # only Deckle's own ops are methods
    list(APPEND sources ${ops}/tensor_methods.cpp ${nested}/nested_methods.cpp)
    list(APPEND headers ${arg_DIR}/deckle/core/generated/tensor_methods.h ${arg_DIR}/deckle/core/generated/method_types.h
      ${nested}/nested_methods.h)
  endif()
  set(generator ${DECKLE_OPGEN})
  if(NOT generator)  # called from a project around Deckle
    set(generator $<TARGET_FILE:opgen>)
  endif()
  set(stamp ${arg_DIR}/${name}.stamp)
  set(root ${arg_ROOT})  # messages name files below it, kernels are looked for in it
  set(options ${arg_OPTIONS})
  set(by_hand "")
  if(arg_KNOWN)
    list(APPEND options --known ${arg_KNOWN})
  elseif(NOT arg_LAYOUT)
    get_filename_component(root ${DECKLE_OPS_DIR}/.. ABSOLUTE)
    list(APPEND options --core)
    set(by_hand ${root}/deckle/by_hand.yaml)
  endif()
  if(NOT "--cuda" IN_LIST options)
    set(cuda_kernels "")
  endif()
  set(depfile DEPFILE ${stamp}.d)
  if("${arg_DIR};${arg_ENTRIES};${options}" MATCHES "[$][^<]")  # CMake 3.25 rewrites such a path without its escape: Ninja finds
    set(depfile "")                                              # it nowhere and runs the generator each time
  endif()
  add_custom_command(
    OUTPUT ${stamp}
    BYPRODUCTS ${sources} ${kernels} ${cuda_kernels} ${headers} ${tests} ${nested_tests}
    COMMAND ${generator} --functions ${DECKLE_OPS_DIR}/functions.yaml ${by_hand} --entries ${specs} --out ${arg_DIR}
      --tests ${arg_TESTS} --root ${root} --depfile ${stamp}.d --target ${stamp} ${options}
    COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
    DEPENDS ${generator} ${arg_ENTRIES} ${DECKLE_OPS_DIR}/functions.yaml ${by_hand}
    ${depfile}
    COMMENT "opgen: ${name}"
    COMMAND_EXPAND_LISTS VERBATIM)
  add_custom_target(${name}_sources DEPENDS ${stamp})
  if(arg_LAYOUT)  # what pages about these ops are made from
    add_custom_target(${name}_pages
      COMMAND ${generator} site --functions ${DECKLE_OPS_DIR}/functions.yaml --entries ${arg_ENTRIES} --root ${root} ${options}
        > ${arg_DIR}/pages.json
      COMMENT "opgen: ${arg_DIR}/pages.json"
      COMMAND_EXPAND_LISTS VERBATIM)
  endif()
  set(${name}_SOURCES ${sources} PARENT_SCOPE)
  set(${name}_KERNELS ${kernels} PARENT_SCOPE)
  set(${name}_CUDA_KERNELS ${cuda_kernels} PARENT_SCOPE)
  set(${name}_TESTS ${tests} PARENT_SCOPE)
  set(${name}_NESTED_TESTS ${nested_tests} PARENT_SCOPE)
endfunction()

# The library's own ops: two more modules, and deckle_generated_sources for the others to wait for.
function(deckle_generate_ops)
  file(GLOB entries CONFIGURE_DEPENDS ${DECKLE_OPS_DIR}/*.yaml)
  list(FILTER entries EXCLUDE REGEX "/(functions|instances)\\.yaml$")
  set(cuda)
  if(DECKLE_CUDA)
    set(cuda --cuda)
  endif()
  deckle_opgen(deckle_generated ENTRIES ${entries} DIR ${DECKLE_GENERATED_DIR} TESTS ${DECKLE_GENERATED_DIR}/tests
    OPTIONS ${cuda})
  set(DECKLE_GENERATED_CUDA_KERNELS ${deckle_generated_CUDA_KERNELS} CACHE INTERNAL "")
  add_library(deckle_generated OBJECT ${deckle_generated_SOURCES})
  target_compile_options(deckle_generated PRIVATE $<$<CONFIG:Release,RelWithDebInfo>:-O1>)
  add_library(deckle_generated_kernels OBJECT ${deckle_generated_KERNELS})
  target_include_directories(deckle_generated_kernels PRIVATE ${DECKLE_HWY_INCLUDE})
  foreach(target deckle_generated deckle_generated_kernels)
    target_link_libraries(${target} PRIVATE deckle_warnings PUBLIC deckle_settings fmt::fmt OpenMP::OpenMP_CXX)
    add_dependencies(${target} deckle_generated_sources)
  endforeach()
  deckle_precompile_headers(deckle_generated)
  deckle_precompile_kernel_headers(deckle_generated_kernels)
  set(DECKLE_MODULES ${DECKLE_MODULES} deckle_generated deckle_generated_kernels CACHE INTERNAL "")
  set(DECKLE_GENERATED_TESTS ${deckle_generated_TESTS} CACHE INTERNAL "")
  set(DECKLE_GENERATED_NESTED_TESTS ${deckle_generated_NESTED_TESTS} CACHE INTERNAL "")
endfunction()
