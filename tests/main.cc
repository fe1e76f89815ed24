// The runner of Catch2 (version 2, header only).
#define CATCH_CONFIG_RUNNER
#include <signal.h>

#include <catch2/catch.hpp>

int main(int argc, char** argv) {
    // Who started the tests by nohup or in the background had them ignore these, and what tests start would, too.
    for (int number : {SIGHUP, SIGINT, SIGQUIT}) ::signal(number, SIG_DFL);
    return Catch::Session().run(argc, argv);
}
