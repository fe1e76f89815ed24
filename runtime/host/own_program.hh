// The file that this program is executed from.
#pragma once
#include <string>

namespace berth {

/// Its path; of a copy in memory that of the file which was copied. Throws SysError.
std::string own_program_path();

/// Where the caller owns the file or may write to it, goes on as a copy of it in memory that nobody can change. The
/// first process in a container is executed by this program. An image whose command is a script for the interpreter
/// /proc/self/exe has the program executed in the container, where /proc/PID/exe leads to its file (CVE-2019-5736).
/// Returns where there is nothing to do, as with an installation of root's. `arguments` are main()'s. Throws Error.
void leave_own_file(char** arguments);

}  // namespace berth
