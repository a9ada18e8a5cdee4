# Calls of deckle_add_ops that are refused when CMake configures, each with what it must say. In one folder: the compiler is
# looked for once.
set(twice_one_stem "other/mine.yaml and ")
set(kernels_of_another "one/ops/mine_kernels_0.cpp would be made from ")
set(tests_of_another "tests/nested_mine_0_test.cpp would be made from ")
set(table "op_table.yaml and from the table of all ops")
set(folder "add_ops/other is no file")
set(space_macro "the compiler takes no namespace 'acme::EOF'")
set(space_function "the compiler takes no namespace 'signal'")
set(space_long "of 200 letters at most")
set(space_twice "second and first both would have one/ops/op_table.h")
set(target_twice "first has ops already")
set(uses_itself "first has no ops here: find_package")
set(uses_no_ops "second has no ops here: find_package")
foreach(case twice_one_stem kernels_of_another tests_of_another table folder space_macro space_function space_long space_twice
    target_twice uses_itself uses_no_ops)
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${BUILD} -G ${GENERATOR}
    -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_PREFIX_PATH=${PREFIX} -DCASE=${case}
    RESULT_VARIABLE result OUTPUT_VARIABLE text ERROR_VARIABLE text)
  string(REGEX REPLACE "[ \n]+" " " line "${text}")  # CMake breaks lines anywhere
  string(FIND "${line}" "${${case}}" found)
  if(result EQUAL 0 OR found EQUAL -1)
    message(SEND_ERROR "${case}: exit code ${result}, and \"${${case}}\" is not in: ${text}")
  endif()
endforeach()
