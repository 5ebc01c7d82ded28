# doctest and Google Benchmark: Debian's packages, else pinned sources.
include(FetchContent)

find_package(doctest QUIET)
if(NOT doctest_FOUND)
  message(STATUS "doctest is not installed: fetching it")
  set(DOCTEST_WITH_TESTS OFF)
  set(DOCTEST_NO_INSTALL ON)
  FetchContent_Declare(doctest
    URL https://github.com/doctest/doctest/archive/refs/tags/v2.4.11.tar.gz
    URL_HASH SHA256=632ed2c05a7f53fa961381497bf8069093f0d6628c5f26286161fbd32a560186)
  FetchContent_MakeAvailable(doctest)
endif()

if(WORKBOOK_BENCH)
  find_package(benchmark QUIET)
  if(NOT benchmark_FOUND)
    message(STATUS "Google Benchmark is not installed: fetching it")
    set(BENCHMARK_ENABLE_TESTING OFF)
    set(BENCHMARK_ENABLE_INSTALL OFF)
    FetchContent_Declare(benchmark
      URL https://github.com/google/benchmark/archive/refs/tags/v1.8.3.tar.gz
      URL_HASH SHA256=6bc180a57d23d4d9515519f92b0c83d61b05b5bab188961f36ac7b06b0d9e9ce)
    FetchContent_MakeAvailable(benchmark)
  endif()
endif()
