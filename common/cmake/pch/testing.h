// The headers that harness and tests share are precompiled in learner builds.
#pragma once

#include "stable.h"

#include <doctest/doctest.h>

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include <functional>
#include <iostream>
#include <map>
#include <regex>
#include <utility>
