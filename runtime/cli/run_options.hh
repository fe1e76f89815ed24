// The options that `berth run` and `berth plan` share.
#pragma once
#include <string>
#include <vector>

#include "runtime/plan/request.hh"

namespace berth::cli {

struct RunOptions {
    plan::Request request;
    std::vector<std::string> set;      ///< NAME=VALUE of --env, for the command's environment
    std::vector<std::string> command;  ///< empty: the image's
    bool verbose = false;
    bool quiet = false;
};

/// Parses the command line of `word` ("run" or "plan"). After --help or a mistake the text has been printed, `code` is set and false is returned.
bool parse_run_options(const std::string& word, int argc, char** argv, RunOptions& options, int& code);

}  // namespace berth::cli
