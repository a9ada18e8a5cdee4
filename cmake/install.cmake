# find_package(deckle) and its namespaced target.

include(CMakePackageConfigHelpers)

install(TARGETS deckle deckle_settings EXPORT deckle_targets)
if(TARGET deckle_cli)  # finds the library beside it, wherever both are put
  set_target_properties(deckle_cli PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
endif()
set(header_list ${PROJECT_SOURCE_DIR}/tools/public_headers.txt)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header_list})
file(STRINGS ${header_list} headers REGEX "^deckle/")
foreach(header ${headers})
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${PROJECT_SOURCE_DIR}/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder})
endforeach()
install(DIRECTORY ${DECKLE_GENERATED_DIR}/deckle DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
# What deckle_add_ops needs: the generator, the entries that formulas may call; the headers are in the list too.
if(TARGET opgen)
  install(TARGETS opgen DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/deckle)
else()
  install(PROGRAMS ${DECKLE_OPGEN} DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/deckle RENAME opgen)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/ops DESTINATION ${CMAKE_INSTALL_DATADIR}/deckle FILES_MATCHING PATTERN "*.yaml"
  PATTERN SCHEMA.md)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md")
install(FILES ${CMAKE_CURRENT_LIST_DIR}/opgen.cmake ${CMAKE_CURRENT_LIST_DIR}/libraries.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/deckle)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/tools/site DESTINATION ${CMAKE_INSTALL_DATADIR}/deckle USE_SOURCE_PERMISSIONS
  PATTERN __pycache__ EXCLUDE)  # pages of others' ops
# The suite behind deckle_test_ops: as a library where it is built, for Deckle's own tests, and as sources.
file(GLOB suite ${PROJECT_SOURCE_DIR}/tests/ops/*.h ${PROJECT_SOURCE_DIR}/tests/ops/*.cpp)
list(FILTER suite EXCLUDE REGEX "(_test|/by_hand)[.](cpp|h)$")
install(FILES ${suite} DESTINATION ${CMAKE_INSTALL_DATADIR}/deckle/testing/tests/ops)
install(FILES ${PROJECT_SOURCE_DIR}/deckle/nested/rows.h
  DESTINATION ${CMAKE_INSTALL_DATADIR}/deckle/testing/deckle/nested)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/tests/support DESTINATION ${CMAKE_INSTALL_DATADIR}/deckle/testing/tests)
if(TARGET deckle_testing)
  install(TARGETS deckle_testing EXPORT deckle_testing_targets)
  install(EXPORT deckle_testing_targets NAMESPACE deckle:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/deckle)
endif()
install(EXPORT deckle_targets NAMESPACE deckle:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/deckle)

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/deckle-config.cmake.in
  ${PROJECT_BINARY_DIR}/deckle-config.cmake INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/deckle
  PATH_VARS CMAKE_INSTALL_LIBEXECDIR CMAKE_INSTALL_DATADIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/deckle-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/deckle-config.cmake ${PROJECT_BINARY_DIR}/deckle-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/deckle)
