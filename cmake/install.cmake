# find_package(deckle) and its namespaced target.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS deckle deckle_settings EXPORT deckle_targets)
if(TARGET deckle_cli)  # finds the library beside it, wherever both are put
  set_target_properties(deckle_cli PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/deckle DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h"
  PATTERN kernels/cpu EXCLUDE PATTERN kernels/cuda EXCLUDE)
install(DIRECTORY ${DECKLE_GENERATED_DIR}/deckle DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(EXPORT deckle_targets NAMESPACE deckle:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/deckle)

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/deckle-config.cmake.in
  ${PROJECT_BINARY_DIR}/deckle-config.cmake INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/deckle)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/deckle-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/deckle-config.cmake ${PROJECT_BINARY_DIR}/deckle-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/deckle)
