# deckle/nested/generated/all.h, the part of the umbrella that depends on which entry files there are. Written at configure
# time, only when it changes; nothing but deckle/deckle.h includes it.

file(GLOB entries CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/ops/*.yaml)
list(FILTER entries EXCLUDE REGEX "/(functions|instances)\\.yaml$")
set(text "#pragma once\n\n// The public functions of all ops, on tensors and on nested tensors.\n")
foreach(folder ops nested)
  foreach(entry ${entries})
    get_filename_component(stem ${entry} NAME_WE)
    string(APPEND text "#include \"deckle/${folder}/generated/${stem}.h\"\n")
  endforeach()
endforeach()
file(CONFIGURE OUTPUT ${DECKLE_GENERATED_DIR}/deckle/nested/generated/all.h CONTENT "${text}" @ONLY)
