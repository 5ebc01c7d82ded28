# Comes from outside into the learner build of a package, through
# CMAKE_PROJECT_INCLUDE: its loops are given, and to optimise them takes longer
# than all the rest.
function(package_unoptimised)
  set_source_files_properties(activation_cpu/activation_row.cpp PROPERTIES
    COMPILE_OPTIONS -O0)
endfunction()
cmake_language(DEFER CALL package_unoptimised)
