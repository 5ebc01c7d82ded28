# Adds the CUDA kernels where there is an nvcc: in PATH, or the one that CUDACXX
# or CMAKE_CUDA_COMPILER names. Without one the library is for CPU only.
option(WITH_CUDA "Build the kernels for CUDA if there is an nvcc" ON)
if(NOT WITH_CUDA)
  return()
endif()
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  find_program(CMAKE_CUDA_COMPILER nvcc HINTS $ENV{CUDA_HOME}/bin
    PATHS /usr/local/cuda/bin)
endif()
if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  message(WARNING "No nvcc was found, so this is built for CPU only. "
    "Install the CUDA toolkit, or nvidia-cuda-nvcc from PyPI, and name it: "
    "CUDACXX=<folder>/bin/nvcc.")
  return()
endif()

# Machine code for the GPU that is here; else for those of most people, and PTX,
# which the driver compiles for newer ones.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
  set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 90)
  set(newer 100-real 120-real) # nvcc 12.8 has them
  execute_process(COMMAND nvidia-smi -L OUTPUT_VARIABLE gpus ERROR_QUIET)
  if(gpus MATCHES "GPU 0" AND CMAKE_VERSION VERSION_GREATER_EQUAL 3.24)
    set(CMAKE_CUDA_ARCHITECTURES native)
    unset(newer)
  endif()
endif()
enable_language(CUDA)
if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.8)
  list(APPEND CMAKE_CUDA_ARCHITECTURES ${newer})
endif()
file(GLOB kernels CONFIGURE_DEPENDS *.cu)
target_sources(cuda_activation_kernel PRIVATE cuda_ops.cpp ${kernels})
target_compile_features(cuda_activation_kernel PRIVATE cuda_std_17)
target_compile_options(cuda_activation_kernel PRIVATE
  $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>) # as torch's extensions
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(cuda_activation_kernel PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-fno-gnu-unique>)
endif()
set_target_properties(cuda_activation_kernel PROPERTIES
  CUDA_ARCHITECTURES "${CMAKE_CUDA_ARCHITECTURES}")
# libtorch.so, though nothing of it is used, leads to libtorch_cuda.so, which
# has the current stream.
target_link_libraries(cuda_activation_kernel
  PRIVATE -Wl,--no-as-needed ${TORCH_ROOT}/lib/libtorch.so)
