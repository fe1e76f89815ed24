#include "runtime/base/command.hh"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth {

namespace {

#if defined(__x86_64__)
constexpr uint16_t native_machine = EM_X86_64;
constexpr const char* native_name = "x86-64";
#elif defined(__aarch64__)
constexpr uint16_t native_machine = EM_AARCH64;
constexpr const char* native_name = "aarch64";
#else
constexpr uint16_t native_machine = EM_NONE;
constexpr const char* native_name = "this machine's architecture";
#endif

bool regular_file(const std::string& path) {
    struct stat st {};
    return ::stat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode);
}

bool runnable(const std::string& path) { return regular_file(path) && ::access(path.c_str(), X_OK) == 0; }

std::string machine_name(uint16_t machine) {
    switch (machine) {
        case EM_X86_64: return "x86-64";
        case EM_386: return "i386";
        case EM_AARCH64: return "aarch64";
        case EM_ARM: return "arm";
        case EM_PPC64: return "ppc64";
        case EM_S390: return "s390x";
        case EM_RISCV: return "riscv";
        default: return cat("machine ", machine);
    }
}

/// The text of the PT_INTERP segment of a 64-bit program; empty for a static one or one that cannot be read.
std::string elf_interpreter(int fd, const Elf64_Ehdr& header) {
    for (unsigned i = 0; i < header.e_phnum && i < 256; ++i) {
        Elf64_Phdr segment{};
        uint64_t at = header.e_phoff + uint64_t{i} * header.e_phentsize;
        if (!sys::pread_exact(fd, sys::bytes_of(segment), at, "a program")) return {};
        if (segment.p_type != PT_INTERP || segment.p_filesz == 0 || segment.p_filesz > 4096) continue;
        std::string text(segment.p_filesz, '\0');
        if (!sys::pread_exact(fd, text, segment.p_offset, "a program")) return {};
        text.resize(std::min(text.find('\0'), text.size()));
        return text;
    }
    return {};
}

void check_elf(int fd, const std::string& path) {
    Elf64_Ehdr header{};
    if (!sys::pread_exact(fd, sys::bytes_of(header), 0, path)) return;
    bool other_machine = header.e_machine != native_machine && header.e_machine != EM_386;
    if (native_machine != EM_NONE && other_machine)
        throw Error(cat("running ", printable(path), ": it is a program for ", machine_name(header.e_machine),
                        ", this node is ", native_name, "; use an image for this platform"),
                    exit_not_executable);
    if (header.e_ident[EI_CLASS] != ELFCLASS64) return;
    std::string interpreter = elf_interpreter(fd, header);
    if (!interpreter.empty() && !regular_file(interpreter))
        throw Error(cat("running ", printable(path), ": its loader ", printable(interpreter),
                        " is not in the container (a program of another distribution?)"),
                    exit_not_found);
}

void check_script(const std::string& start, const std::string& path) {
    std::string line(trimmed(start.substr(2, start.find('\n') - 2)));
    std::string interpreter = line.substr(0, line.find_first_of(" \t"));
    if (!interpreter.empty() && !regular_file(interpreter))
        throw Error(
            cat("running ", printable(path), ": its interpreter ", printable(interpreter), " is not in the container"),
            exit_not_found);
}

/// Has the start of a program read while other things are done. Page by page, as the kernel's execution of it asks for
/// them, a file server would be asked far more often.
void read_ahead(int fd) {
    // Each call reads no more than the usual read-ahead window (mm/readahead.c).
    constexpr off_t window = 128 << 10, start = 1 << 20;
    // The first close on a served file system asks whether there is anything to do at a close, and would wait for all
    // that is read.
    Fd same(::dup(fd));
    same.reset();
    for (off_t at = 0; at < start; at += window) ::posix_fadvise(fd, at, window, POSIX_FADV_WILLNEED);
}

/// Explains beforehand what exec would report as a bare "No such file" or "Exec format error". What cannot be read is
/// left to exec.
void check_format(const std::string& path) {
    Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) return;
    read_ahead(file.get());
    char start[256] = {};
    ssize_t got = ::pread(file.get(), start, sizeof start - 1, 0);
    if (got >= 4 && std::memcmp(start, ELFMAG, SELFMAG) == 0)
        check_elf(file.get(), path);
    else if (got >= 2 && start[0] == '#' && start[1] == '!')
        check_script(std::string(start, static_cast<size_t>(got)), path);
}

[[noreturn]] void not_runnable(const std::string& path) {
    struct stat st {};
    bool directory = ::stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
    throw Error(cat("running ", printable(path, 4096), ": ",
                    directory ? "it is a directory" : "it is not executable in the container (chmod +x)"),
                exit_not_executable);
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
    std::vector<char*> out;
    for (std::string& text : texts) out.push_back(text.data());
    out.push_back(nullptr);
    return out;
}

/// The paths that a name may mean, in the order in which they are tried.
std::vector<std::string> candidates(const std::string& name, const std::string& path_variable) {
    if (name.find('/') != std::string::npos) return {name};
    std::vector<std::string> out;
    if (name.empty()) return out;
    for (const std::string& folder : split(path_variable, ':'))
        out.push_back(cat(folder.empty() ? "." : folder, "/", name));
    return out;
}

std::string find(const std::string& name, const std::string& path_variable, const char* where,
                 const std::vector<std::string>& paths) {
    std::string unusable;
    for (const std::string& path : paths) {
        if (runnable(path)) {
            check_format(path);
            return path;
        }
        if (unusable.empty() && regular_file(path)) unusable = path;
    }
    if (!unusable.empty()) not_runnable(unusable);
    throw Error(cat("running ", printable(name, 4096), ": command not found ", where, " (PATH=",
                    printable(path_variable, 1024), ")"),
                exit_not_found);
}

}  // namespace

std::string find_command(const std::string& name, const std::string& path_variable, const char* where) {
    if (name.find('/') != std::string::npos) {
        if (::access(name.c_str(), F_OK) != 0) {
            int number = errno;
            // Who writes ./train.sh means the directory in which srun was called.
            bool is_inside = std::string_view(where) == root_of_container && !name.starts_with('/');
            throw Error(cat("running ", printable(name, 4096), ": ", reason(number), ' ', where,
                            is_inside ? "; the directory where srun was called is there only if it is mounted "
                                        "(--container-mounts=.:/job --container-workdir=/job)"
                                      : ""),
                        exit_not_found);
        }
        if (!runnable(name)) not_runnable(name);
        check_format(name);
        return name;
    }
    return find(name, path_variable, where, candidates(name, path_variable));
}

std::string find_command_or_file(const std::string& name, const std::string& path_variable) {
    if (name.empty() || name.find('/') != std::string::npos) return find_command(name, path_variable);
    std::vector<std::string> paths = candidates(name, path_variable);
    paths.push_back("./" + name);
    return find(name, path_variable, root_of_container, paths);
}

void execute_command(std::vector<std::string> command, std::vector<std::string> environment) {
    std::string path_variable = value_in(environment, "PATH");
    int number = ENOENT;
    for (const std::string& path : candidates(command[0], path_variable)) {
        // To open something else than a file might wait, or do something.
        if (Fd program(regular_file(path) ? ::open(path.c_str(), O_RDONLY | O_CLOEXEC) : -1); program)
            read_ahead(program.get());
        ::execve(path.c_str(), pointers(command).data(), pointers(environment).data());
        number = errno;
        // A file that lacks its interpreter is not there either, by this number.
        if (runnable(path)) break;
    }
    std::string path = find_command(command[0], path_variable);
    throw Error(cat("running ", printable(path, 4096), ": ", reason(number)),
                number == ENOENT ? exit_not_found : exit_not_executable);
}

}  // namespace berth
