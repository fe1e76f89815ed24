// What `apptainer instance list` prints, and the words of `instance stop`. Pure.
#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

namespace berth::apptainer {

struct ListedInstance {
    std::string name, image, out, err;
    pid_t pid = 0;
};

/// Rows of cells in columns as wide as their widest cell, with blanks between them.
std::string columns(const std::vector<std::vector<std::string>>& rows);

/// A table in Apptainer's form: names, numbers, addresses (none has one of its own) and images; or, with `logs`, the
/// files that their processes print to.
std::string instance_table(const std::vector<ListedInstance>& instances, bool logs);

/// The same as JSON in Apptainer's form.
std::string instance_json(const std::vector<ListedInstance>& instances);

/// The number of a signal: "SIGTERM", "TERM", "15". Throws Error.
int signal_of(const std::string& word);

}  // namespace berth::apptainer
