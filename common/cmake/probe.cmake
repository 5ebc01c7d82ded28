# A chapter whose product is a header is tested through tests/NN_name/probe.cpp: it
# includes the header from the folder under test and registers probing ops. This
# adds it, from outside, to the folder's own build.
function(workbook_add_probe)
  add_library(probe SHARED ${WORKBOOK_PROBE})
  target_include_directories(probe PRIVATE
    ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/core)
  target_include_directories(probe SYSTEM PRIVATE ${TORCH_ROOT}/include)
  target_compile_definitions(probe
    PRIVATE TORCH_TARGET_VERSION=0x020a000000000000)
  target_compile_features(probe PRIVATE cxx_std_17)
  target_compile_options(probe PRIVATE -Wall -Wextra -Wno-unknown-pragmas)
  target_link_libraries(probe PRIVATE ${TORCH_ROOT}/lib/libtorch_cpu.so)
  set_target_properties(probe PROPERTIES
    CXX_EXTENSIONS OFF
    CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON)
endfunction()
if(WORKBOOK_PROBE)
  cmake_language(DEFER CALL workbook_add_probe)
endif()
