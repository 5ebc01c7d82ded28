"""The helpers of chapter 08's tests: processes that see the Hub's loader, and what a
library, a build and a file in Python tell of themselves."""
