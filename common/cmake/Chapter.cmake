# add_chapter(NN_name [TORCH] [ALLOCATIONS] [INTERPOSED])
#
# Builds NN_name_test and NN_name_bench from tests/NN_name, configures
# solutions/NN_name as a project of its own, and registers the tests NN.solution
# and NN.bench. With TORCH the test is linked with libtorch; with ALLOCATIONS its
# operator new tells the ledger, and with INTERPOSED it sees the calls by name.
include(ExternalProject)

# In a solution a warning is an error; but on aarch64 g++ warns of each Half of a
# float: torch's is made of a __fp16 there.
set(strict -Werror)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
  string(APPEND strict " -Wno-error=float-conversion")
endif()

function(add_chapter name)
  cmake_parse_arguments(arg "TORCH;ALLOCATIONS;INTERPOSED" "" "" ${ARGN})
  string(SUBSTRING ${name} 0 2 number)
  string(SUBSTRING ${name} 3 -1 project)

  add_executable(${name}_test ${name}/steps.cpp)
  target_link_libraries(${name}_test PRIVATE workbook_testing)
  # It is compiled for longer than it runs.
  target_compile_options(${name}_test PRIVATE $<$<CONFIG:Release>:-O1>)
  if(arg_ALLOCATIONS OR arg_INTERPOSED)
    target_link_libraries(${name}_test PRIVATE workbook_allocations)
  endif()
  if(arg_INTERPOSED)
    target_link_libraries(${name}_test PRIVATE workbook_interposed)
  endif()
  if(arg_TORCH)
    target_link_libraries(${name}_test PRIVATE workbook_torch)
  endif()

  set(solution ${CMAKE_BINARY_DIR}/solutions/${name})
  set(library ${solution}/lib${project}.so)
  set(outside ${CMAKE_PROJECT_INCLUDE})
  set(from_outside)
  set(probe ${CMAKE_CURRENT_SOURCE_DIR}/${name}/probe.cpp)
  if(EXISTS ${probe})
    set(library ${solution}/libprobe.so)
    list(APPEND from_outside -DWORKBOOK_PROBE:FILEPATH=${probe})
    if(NOT outside)
      set(outside ${CMAKE_SOURCE_DIR}/common/cmake/probe.cmake)
    endif()
  endif()
  if(outside)
    list(APPEND from_outside -DCMAKE_PROJECT_INCLUDE:FILEPATH=${outside})
  endif()
  # g++ warns wrongly of code with sanitizers in it.
  if(NOT CMAKE_PROJECT_INCLUDE OR CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    list(APPEND from_outside "-DCMAKE_CXX_FLAGS:STRING=${strict}")
  endif()
  ExternalProject_Add(${name}
    SOURCE_DIR ${CMAKE_SOURCE_DIR}/solutions/${name}
    BINARY_DIR ${solution}
    CMAKE_CACHE_ARGS
      -DTORCH_ROOT:PATH=${TORCH_ROOT}
      -DCMAKE_BUILD_TYPE:STRING=${CMAKE_BUILD_TYPE}
      -DCMAKE_CXX_COMPILER:FILEPATH=${CMAKE_CXX_COMPILER}
      -DCMAKE_TOOLCHAIN_FILE:FILEPATH=${CMAKE_TOOLCHAIN_FILE}
      ${from_outside}
    INSTALL_COMMAND ""
    BUILD_ALWAYS ON)
  add_test(NAME ${number}.solution
    COMMAND ${name}_test --library=${library})

  if(WORKBOOK_BENCH AND EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/bench.cpp)
    add_executable(${name}_bench ${name}/bench.cpp)
    target_link_libraries(${name}_bench PRIVATE workbook_bench workbook_torch)
    add_test(NAME ${number}.bench
      COMMAND ${name}_bench --library=${library} --quick)
  endif()
endfunction()

# A chapter whose product is loaded by Python, and its steps are tested there.
# The tests of what it registers are C++, and run on every libtorch.
function(add_python_chapter name)
  if(CMAKE_PROJECT_INCLUDE)
    return() # sanitizers are for libraries that a test loads
  endif()
  add_executable(${name}_test ${name}/package.cpp)
  target_link_libraries(${name}_test PRIVATE workbook_testing workbook_torch)
  set_target_properties(${name}_test PROPERTIES ENABLE_EXPORTS ON)
  if(WORKBOOK_BENCH) # in Python too; this is its floor
    add_library(${name}_bench MODULE ${name}/floor.cpp)
    target_link_libraries(${name}_bench PRIVATE workbook_torch)
    set_target_properties(${name}_bench PROPERTIES PREFIX "" CXX_STANDARD 17)
  endif()
  ExternalProject_Add(${name}
    SOURCE_DIR ${CMAKE_SOURCE_DIR}/solutions/${name}
    BINARY_DIR ${CMAKE_BINARY_DIR}/solutions/${name}
    CMAKE_CACHE_ARGS
      -DTORCH_ROOT:PATH=${TORCH_ROOT}
      -DCMAKE_CXX_COMPILER:FILEPATH=${CMAKE_CXX_COMPILER}
      -DCMAKE_CXX_FLAGS:STRING=${strict}
      -DCMAKE_TOOLCHAIN_FILE:FILEPATH=${CMAKE_TOOLCHAIN_FILE}
      -DACTIVATION_CUDA:BOOL=OFF
    INSTALL_COMMAND ""
    BUILD_ALWAYS ON)
endfunction()
