# cmake -DPREFIX=folder -DLIST=tools/public_headers.txt -P this: what is installed is the list and the headers of generated ops.
file(STRINGS ${LIST} expected REGEX "^deckle/")
file(GLOB_RECURSE found RELATIVE ${PREFIX}/include ${PREFIX}/include/deckle/*.h)
list(FILTER found EXCLUDE REGEX "/generated/")
list(SORT expected)
list(SORT found)
if(NOT expected STREQUAL found)
  message(FATAL_ERROR "installed: ${found}\nexpected: ${expected}")
endif()
