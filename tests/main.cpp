// SPDX-License-Identifier: Apache-2.0
//
// The one main() of all unit tests; Catch2 writes it.
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
