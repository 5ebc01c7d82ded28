# Comes from outside into every project of a learner build, through
# CMAKE_PROJECT_INCLUDE, so that a folder's own CMakeLists.txt stays plain.
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# -g1 has what a stack trace needs; -g costs a third of the compile time more.
set(CMAKE_CXX_FLAGS_DEBUG "-Og -g1")

# Left out is what takes up to a quarter of the compile time: checks at each use
# of a pointer. AddressSanitizer sees those that point to nothing.
set(sanitizers
  -fsanitize=address,undefined -fno-sanitize-recover=undefined
  -fno-sanitize=null,alignment,vptr,object-size
  -fno-omit-frame-pointer)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND
    CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12)
  # What is not initialised is not zero by chance. GCC 12 then warns wrongly.
  list(APPEND sanitizers
    -ftrivial-auto-var-init=pattern -Wno-maybe-uninitialized)
endif()
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${sanitizers}>")
add_link_options(-fsanitize=address,undefined)

find_program(WORKBOOK_MOLD mold)
if(WORKBOOK_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

# CUDA: one architecture, no optimisation on the host, and no run time, which
# the test has instead.
set(CMAKE_CUDA_FLAGS_DEBUG "-Xcompiler -O0")
set(CMAKE_CUDA_ARCHITECTURES 90-real)
set(CMAKE_CUDA_RUNTIME_LIBRARY None)

include(${CMAKE_CURRENT_LIST_DIR}/probe.cmake)

# GCC takes the first precompiled header that fits the flags from the folder
# ${WORKBOOK_PCH}.gch, and the header itself where none does. Not for a file
# with options of its own: GCC 12 crashes on a header made for another -O.
function(workbook_precompiled_header)
  get_property(targets DIRECTORY PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(sources ${target} SOURCES)
    list(FILTER sources INCLUDE REGEX "\\.cpp$")
    foreach(source IN LISTS sources)
      get_property(options SOURCE ${source} PROPERTY COMPILE_OPTIONS)
      if(NOT options)
        set_property(SOURCE ${source} PROPERTY COMPILE_OPTIONS
          -include "${WORKBOOK_PCH}")
      endif()
    endforeach()
  endforeach()
endfunction()
if(WORKBOOK_PCH AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  cmake_language(DEFER CALL workbook_precompiled_header)
endif()
