// Running a program for its answer: input, output, what it complains of, and a limit of time.
#pragma once
#include <chrono>
#include <string>
#include <vector>

namespace berth {

struct ProgramAnswer {
    std::string output;
    std::string complaint;  ///< the last line on its standard error
    int code = 0;           ///< exit code, 128 and a signal's number, or -1: it was killed when its time was over
};

/// Why a program that had this time gave no answer: what it complains of, else how it ended.
std::string why_it_failed(const ProgramAnswer& answer, std::chrono::seconds limit);

/// Runs `program` with `input` on its standard input and `environment` (NAME=VALUE; without one, this process's).
/// Output beyond 4 MiB counts as an end by signal. Throws SysError when it cannot be started.
ProgramAnswer run_program(const std::string& program, const std::vector<std::string>& arguments,
                          const std::string& input, std::chrono::seconds limit,
                          const std::vector<std::string>* environment = nullptr);

}  // namespace berth
