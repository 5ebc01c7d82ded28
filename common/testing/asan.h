// Whether this is compiled with AddressSanitizer, by GCC or by clang.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define WORKBOOK_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WORKBOOK_ASAN 1
#endif
#endif

#ifndef WORKBOOK_ASAN
#define WORKBOOK_ASAN 0
#endif
