include(CMakeFindDependencyMacro)
find_dependency(deckle 0.1)
include(${CMAKE_CURRENT_LIST_DIR}/smooth_targets.cmake)
