// What the harness and the tests include, precompiled for learner builds.
#pragma once

#include "stable.h"

#include <doctest/doctest.h>

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include <functional>
#include <iostream>
#include <map>
#include <regex>
#include <utility>
