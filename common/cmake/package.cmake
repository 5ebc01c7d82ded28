# Comes from outside into the learner build of a package, through
# CMAKE_PROJECT_INCLUDE: its loops are given, and to optimise them takes longer
# than all the rest. What it includes from torch is precompiled, in a target of
# its own: GCC takes such a header only before all others, CMake puts it last.
function(package_faster)
  set_source_files_properties(activation_cpu/activation_row.cpp PROPERTIES
    COMPILE_OPTIONS -O0)
  if(NOT TARGET settings OR NOT TARGET activation_cpu_module)
    return() # a learner may name them otherwise
  endif()
  set(none ${CMAKE_BINARY_DIR}/precompiled.cpp)
  file(GENERATE OUTPUT ${none} CONTENT "")
  add_library(precompiled OBJECT ${none})
  target_link_libraries(precompiled PRIVATE settings)
  target_precompile_headers(precompiled PRIVATE
    ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/pch/stable.h)
  add_dependencies(activation_cpu_module precompiled)
  set(header ${CMAKE_BINARY_DIR}/CMakeFiles/precompiled.dir/cmake_pch.hxx)
  target_compile_options(activation_cpu_module BEFORE PRIVATE
    "SHELL:-include \"${header}\"")
endfunction()
cmake_language(DEFER CALL package_faster)
