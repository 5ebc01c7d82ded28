# TORCH_ROOT, the folder of a torch wheel or of libtorch (it holds include/ and
# lib/), and the target workbook_torch. Not find_package(Torch): that is a fatal
# error with a CUDA wheel and no CUDA toolkit, and a stable extension needs only
# an include folder, a macro and one library.
set(WORKBOOK_TARGET_VERSION 0x020a000000000000) # 2.10, the oldest we run on

if(NOT TORCH_ROOT AND DEFINED ENV{TORCH_ROOT})
  set(TORCH_ROOT $ENV{TORCH_ROOT})
endif()
if(NOT TORCH_ROOT)
  find_program(WORKBOOK_PYTHON NAMES python3 python
    HINTS ${CMAKE_SOURCE_DIR}/.venv/bin $ENV{VIRTUAL_ENV}/bin)
  execute_process(
    COMMAND ${WORKBOOK_PYTHON} -c "import importlib.util as u; \
s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
    OUTPUT_VARIABLE TORCH_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
set(TORCH_ROOT "${TORCH_ROOT}" CACHE PATH "The folder of torch or libtorch")

if(NOT EXISTS "${TORCH_ROOT}/include/torch/csrc/stable/library.h")
  message(FATAL_ERROR
    "No torch with the stable ABI at TORCH_ROOT='${TORCH_ROOT}'.\n"
    "Run ./workbook, or pip install 'torch>=2.10', or set TORCH_ROOT to an "
    "unpacked libtorch.")
endif()

add_library(workbook_torch_headers INTERFACE)
target_include_directories(workbook_torch_headers
  SYSTEM INTERFACE ${TORCH_ROOT}/include)
target_compile_definitions(workbook_torch_headers
  INTERFACE TORCH_TARGET_VERSION=${WORKBOOK_TARGET_VERSION})

# RUNPATH, so that LD_LIBRARY_PATH can choose another libtorch at run time.
add_library(workbook_torch INTERFACE)
target_link_libraries(workbook_torch INTERFACE
  workbook_torch_headers ${TORCH_ROOT}/lib/libtorch_cpu.so)
target_link_options(workbook_torch INTERFACE -Wl,--enable-new-dtags)
