// The runner of Catch2 (version 2, header only).
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
