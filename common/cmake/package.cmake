# Comes from outside into the learner build of a package, through
# CMAKE_PROJECT_INCLUDE: its loops are given, and need half a minute to be made
# fast.
function(package_unoptimised)
  set_source_files_properties(activation_cpu/activation_row.cpp PROPERTIES
    COMPILE_OPTIONS -O0)
endfunction()
cmake_language(DEFER CALL package_unoptimised)
