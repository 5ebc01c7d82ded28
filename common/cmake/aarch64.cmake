# Builds for aarch64 by Debian's cross compiler (g++-aarch64-linux-gnu), and runs
# what was built in an emulator (qemu-user):
#   cmake -S . -B build/aarch64 -G Ninja -DWORKBOOK_BENCH=OFF \
#     --toolchain common/cmake/aarch64.cmake -DTORCH_ROOT=...
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(WITH_CUDA OFF) # nvcc's host compiler is for this machine

# The emulator looks for each file in this folder first. Without a cpuinfo of an
# Arm it would give the host's, and libtorch's cpuinfo library then writes through
# a null pointer: it has found no core.
set(root ${CMAKE_BINARY_DIR}/aarch64-root)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -cpu neoverse-n1 -L ${root})
if(NOT EXISTS ${root}/lib)
  cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
  math(EXPR last "${cores} - 1")
  set(text)
  foreach(core RANGE ${last})
    string(APPEND text
      "processor : ${core}\n"
      "Features : fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp "
      "asimdhp cpuid asimdrdm lrcpc dcpop asimddp\n"
      "CPU implementer : 0x41\n"
      "CPU architecture: 8\n"
      "CPU variant : 0x3\n"
      "CPU part : 0xd0c\n"
      "CPU revision : 1\n\n")
  endforeach()
  file(WRITE ${root}/proc/cpuinfo "${text}")
  file(CREATE_LINK /usr/aarch64-linux-gnu/lib ${root}/lib SYMBOLIC)
endif()
