// Enroot's environ.d and mounts.d, as a site's tools write them.
#include "runtime/enroot/site_files.hh"

#include "runtime/base/text.hh"
#include "tests/catch.hh"

using namespace berth;
using namespace berth::enroot;

namespace {

std::string value(const std::string& name) {
    if (name == "HOME") return "/home/alice";
    if (name == "SLURM_JOB_ID") return "7";
    return {};
}

/// "SOURCE>TARGET FLAGS" of a line that is a mount, and why it is none.
std::string text_of(const FstabLine& line) {
    const plan::MountRequest& mount = line.mount;
    if (!line.left_out.empty()) return cat(line.number, " not: ", line.left_out);
    std::string out = mount.kind == plan::MountRequest::Kind::tmpfs    ? "tmpfs"
                      : mount.kind == plan::MountRequest::Kind::umount ? "umount"
                                                                 : mount.source;
    if (mount.kind == plan::MountRequest::Kind::squashfs) out += " squashfs";
    out += cat(">", mount.target, mount.read_only ? " ro" : "", mount.no_exec ? " noexec" : "",
               mount.optional ? " nofail" : "", mount.recursive ? "" : " bind", line.of_variable ? " variable" : "");
    for (const auto& [key, text] : mount.options) out += cat(" ", key, "=", text);
    return out;
}

std::vector<std::string> mounts_of(const std::string& text) {
    std::vector<std::string> out;
    for (const FstabLine& line : mount_lines(text, value)) out.push_back(text_of(line));
    return out;
}

}  // namespace

TEST_CASE("enroot files: ${NAME} is replaced, as by envsubst, and nothing else", "[plan][enroot]") {
    CHECK(with_variables("${HOME}/x${SLURM_JOB_ID}", value) == "/home/alice/x7");
    CHECK(with_variables("a${NONE}b", value) == "ab");
    for (const char* plain : {"$HOME", "$(id -u)", "${", "${HOME", "${1A}", "${}", "${A-B}", "$${"})
        CHECK(with_variables(plain, value) == plain);
}

TEST_CASE("enroot files: lines of environ.d are variables as Enroot formats them", "[plan][enroot]") {
    CHECK(variable_lines("# a comment\n\n  A=1\nB=\"two words\"  \nC='x'\nENROOT_X=1\n1D=2\nnothing\nE=${HOME}/e\n"
                             "NCCL_IB_HCA=mlx5_0,mlx5_1\nTERM=${TERM}\nEMPTY=\n",
                             value) == std::vector<std::string>{"A=1", "B=two words", "C=x", "E=/home/alice/e",
                                                                "NCCL_IB_HCA=mlx5_0,mlx5_1", "EMPTY="});
}

TEST_CASE("enroot files: lines of mounts.d are mounts, with what Enroot guesses", "[plan][enroot]") {
    CHECK(mounts_of("/lustre /lustre none x-create=dir,rbind,rw,nosuid,rslave\n"
                    "/data\t/in/data none bind,ro,nofail,silent 0 0\n"
                    "/short\n/opt/two /opt/there\n/opt/three bind\n/a\\040b /c none rbind,suid,dev\n"
                    "tmpfs /scratch tmpfs x-create=dir,size=1G,mode=1777\n# comment\n"
                    "none /usr/local/x none x-detach,nofail\n${HOME}/in /in none bind\n") ==
          std::vector<std::string>{"/lustre>/lustre", "/data>/in/data ro nofail bind", "/short>/short",
                                   "/opt/two>/opt/there", "/opt/three>/opt/three bind", "/a b>/c",
                                   "tmpfs>/scratch size=1G mode=1777", "umount>/usr/local/x nofail",
                                   "/home/alice/in>/in bind variable"});
}

TEST_CASE("enroot files: lines with a squashfs file", "[plan][enroot]") {
    CHECK(mounts_of("/lustre/d.sqsh /data squashfs loop,ro,x-create=dir 0 0\n"
                    "/lustre/e.sqsh /more squashfs\n"
                    "${HOME}/f.sqsh /own none squashfs,nofail\n") ==
          std::vector<std::string>{"/lustre/d.sqsh squashfs>/data ro", "/lustre/e.sqsh squashfs>/more ro",
                                   "/home/alice/f.sqsh squashfs>/own ro nofail variable"});
    CHECK(mounts_of("d.sqsh /data squashfs ro\n") ==
          std::vector<std::string>{"1 not: its source is no absolute path"});
    CHECK(mounts_of("/d.sqsh /data squashfs rw\n")[0].find("only read") != std::string::npos);
    CHECK(mounts_of("tmpfs /data tmpfs squashfs\n")[0].find("FILE:DST:squashfs") != std::string::npos);
}

TEST_CASE("enroot files: what every container has anyway is passed over, what none can have is named",
          "[plan][enroot]") {
    // 10-system.fstab and 20-config.fstab of Enroot 4.1.2.
    CHECK(mounts_of("/proc       /proc       none    x-create=dir,rbind,rw,nosuid,nodev,noexec,rslave   0   -1\n"
                    "/dev        /dev        none    x-create=dir,rbind,rw,nosuid,noexec,rslave         0   -1\n"
                    "tmpfs       /tmp        tmpfs   x-create=dir,rw,nosuid,nodev,mode=755,slave        0   -1\n"
                    "tmpfs       /var/run    tmpfs   x-create=dir,rw,nosuid,nodev,mode=755,slave        0   -1\n"
                    "/dev/shm    /dev/shm    none    x-create=dir,bind,rw,nosuid,nodev,noexec,rslave    0   -1\n"
                    "/etc/hosts  /etc/hosts  none    x-create=file,bind,ro,nosuid,nodev,noexec,private  0   -1\n")
              .empty());
    CHECK(mounts_of("/tmp /tmp none rbind,rw\n") == std::vector<std::string>{"/tmp>/tmp"});
    std::vector<std::string> refused = mounts_of(
        "overlay / overlay lowerdir=/a\n/x / none bind\nrelative /y none bind\n/x /y none remount,ro\n"
        "/x /y none odd=1\n/x /proc/1 none bind\n");
    REQUIRE(refused.size() == 6);
    for (const std::string& line : refused) CHECK(line.find(" not: ") == 1);
    CHECK(refused[2] == "3 not: its source is no absolute path");
}
