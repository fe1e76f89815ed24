// The runner of Catch2.
#define CATCH_CONFIG_RUNNER
#include <signal.h>

#include "tests/catch.hh"

int main(int argc, char** argv) {
    // Who started the tests by nohup or in the background had them ignore these, and what tests start would, too.
    for (int number : {SIGHUP, SIGINT, SIGQUIT}) ::signal(number, SIG_DFL);
    return Catch::Session().run(argc, argv);
}
