# Comes from outside into every project of a learner build, through
# CMAKE_PROJECT_INCLUDE, so that a folder's own CMakeLists.txt stays plain.
cmake_policy(SET CMP0057 NEW) # IN_LIST, where a folder names no version
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# -g1 has what a stack trace needs; -g costs a third of the compile time more.
# So does -Og, with which Clang takes three times as long as without.
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g1")

# Left out is what takes up to a quarter of the compile time: checks at each use
# of a pointer. AddressSanitizer sees those that point to nothing.
set(sanitizers
  -fsanitize=address,undefined -fno-sanitize-recover=undefined
  -fno-sanitize=null,alignment,vptr,object-size
  -fno-omit-frame-pointer)
# What is not initialised is not zero by chance. GCC 12 then warns wrongly.
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Clang warns that a loop with checks in it is not vectorised.
  list(APPEND sanitizers -ftrivial-auto-var-init=pattern -Wno-pass-failed)
  add_compile_definitions(__SANITIZE_ADDRESS__=1) # GCC has it by itself
elseif(CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12)
  list(APPEND sanitizers
    -ftrivial-auto-var-init=pattern -Wno-maybe-uninitialized)
endif()
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${sanitizers}>")
add_compile_definitions(_GLIBCXX_ASSERTIONS) # such as an index beyond a vector's end
add_link_options(-fsanitize=address,undefined)

# mold makes a strong reference of a weak one if the function is there; the
# chapters 06 and 09 look at which is which. gold does not, and takes half the
# time of bfd.
set(looked_at version_gating port_an_extension)
find_program(WORKBOOK_MOLD mold)
find_program(WORKBOOK_GOLD ld.gold)
if(NOT PROJECT_NAME IN_LIST looked_at AND WORKBOOK_MOLD)
  add_link_options(-fuse-ld=mold)
elseif(PROJECT_NAME IN_LIST looked_at AND WORKBOOK_GOLD)
  add_link_options(-fuse-ld=gold)
endif()

# CUDA: one architecture, no optimisation on the host, and no run time, which
# the test has instead.
set(CMAKE_CUDA_FLAGS_DEBUG "-Xcompiler -O0")
set(CMAKE_CUDA_ARCHITECTURES 90-real)
set(CMAKE_CUDA_RUNTIME_LIBRARY None)

include(${CMAKE_CURRENT_LIST_DIR}/probe.cmake)

# The probe of some chapters includes the library's source. Then that is compiled as
# a part of the probe alone, with the library's warnings.
function(workbook_compile_once)
  file(READ ${WORKBOOK_PROBE} text)
  get_property(targets DIRECTORY PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(sources ${target} SOURCES)
    if(text MATCHES "#include \"${sources}\"\n")
      set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
      get_target_property(options ${target} COMPILE_OPTIONS)
      target_compile_options(probe PRIVATE ${options})
    endif()
  endforeach()
endfunction()
if(WORKBOOK_PROBE)
  cmake_language(DEFER CALL workbook_compile_once)
endif()

# A learner compiles the same files again and again: the tool precompiles what
# they include from torch. A file with options of its own does without, unless it
# is one that they edit: then its options are those of all, and it is optimised as
# little, which takes longer than what it saves.
option(WORKBOOK_PCH "Precompile torch's headers" OFF)
set(WORKBOOK_EDITED "" CACHE STRING "The files that a learner edits")
function(workbook_precompile_headers)
  get_property(targets DIRECTORY PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    get_target_property(excluded ${target} EXCLUDE_FROM_ALL)
    if(excluded OR NOT type STREQUAL "SHARED_LIBRARY")
      continue()
    endif()
    get_target_property(sources ${target} SOURCES)
    foreach(source IN LISTS sources)
      get_property(options SOURCE ${source} PROPERTY COMPILE_OPTIONS)
      if(options AND source IN_LIST WORKBOOK_EDITED)
        set_property(SOURCE ${source} PROPERTY COMPILE_OPTIONS "")
        list(FILTER options EXCLUDE REGEX "^-O")
        target_compile_options(
          ${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:${options}>")
      elseif(options)
        set_property(SOURCE ${source} PROPERTY SKIP_PRECOMPILE_HEADERS ON)
      endif()
    endforeach()

    get_target_property(libraries ${target} LINK_LIBRARIES)
    set(header headeronly.h)
    if(libraries MATCHES "torch_cpu")
      set(header stable.h)
    endif()
    # Targets that differ in warnings alone share what is precompiled.
    set_target_properties(${target} PROPERTIES DEFINE_SYMBOL "")
    get_target_property(definitions ${target} COMPILE_DEFINITIONS)
    get_target_property(options ${target} COMPILE_OPTIONS)
    list(FILTER options EXCLUDE REGEX "-W")
    string(MD5 key "${header} ${definitions} ${options}")
    if(DEFINED first_${key})
      target_precompile_headers(${target} REUSE_FROM ${first_${key}})
    else()
      set(first_${key} ${target})
      target_precompile_headers(${target} PRIVATE
        $<$<COMPILE_LANGUAGE:CXX>:${CMAKE_CURRENT_FUNCTION_LIST_DIR}/pch/${header}>)
    endif()
  endforeach()
endfunction()
if(WORKBOOK_PCH)
  cmake_language(DEFER CALL workbook_precompile_headers)
endif()
