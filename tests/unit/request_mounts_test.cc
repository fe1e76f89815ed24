#include "runtime/base/error.hh"
#include "runtime/request/mounts.hh"
#include "tests/catch.hh"

using namespace berth;
using berth::plan::MountRequest;
using berth::plan::parse_mounts;

namespace {

/// The message of the error that parsing `text` gives; empty when there is none.
std::string refusal(const std::string& text) {
    try {
        parse_mounts(text);
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

/// Column of the caret in a message of three lines.
size_t caret(const std::string& message) { return message.substr(message.rfind('\n') + 3).find('^'); }

}  // namespace

TEST_CASE("mounts: source, target and flags", "[request]") {
    auto mounts = parse_mounts("/a:/b:ro+noexec,/c,./d:/e,tmpfs:/scratch,umount:/opt");
    REQUIRE(mounts.size() == 5);
    CHECK(mounts[0].source == "/a");
    CHECK(mounts[0].target == "/b");
    CHECK(mounts[0].read_only);
    CHECK(mounts[0].no_exec);
    CHECK(mounts[1].source == "/c");
    CHECK(mounts[1].target.empty());
    CHECK_FALSE(mounts[1].read_only);
    CHECK(mounts[2].source == "./d");
    CHECK(mounts[3].kind == MountRequest::Kind::tmpfs);
    CHECK(mounts[3].target == "/scratch");
    CHECK(mounts[4].kind == MountRequest::Kind::umount);
}

TEST_CASE("mounts: targets are normalised and an empty one means the source", "[request]") {
    CHECK(parse_mounts("/a:/b//c/../d/.")[0].target == "/b/d");
    CHECK(parse_mounts("/a::ro")[0].target.empty());
    CHECK(parse_mounts("/a::ro")[0].read_only);
    CHECK(parse_mounts("/a:/b:bind")[0].recursive == false);
}

TEST_CASE("mounts: a relative target starts at the root of the container and stays below it", "[request]") {
    CHECK(parse_mounts("/a:./b/../c")[0].target == "/c");
    for (const char* target : {"../home", "./../x", "./a/../../b"})
        CHECK(refusal(std::string("/a:") + target).find("Invalid cross-device link") != std::string::npos);
}

TEST_CASE("mounts: flags of Enroot's fstab lines", "[request]") {
    using plan::CreateTarget, plan::Propagation;
    MountRequest bind = parse_mounts("/a:/b:unbindable+ro+nofail+x-create=file+relatime+defaults")[0];
    CHECK(bind.propagation == Propagation::unbindable);
    CHECK((bind.read_only && bind.optional));
    CHECK(bind.create == CreateTarget::file);
    CHECK(parse_mounts("/a:/b:rslave")[0].propagation == Propagation::slave);
    CHECK(parse_mounts("/a:/b:shared")[0].propagation == Propagation::shared);
    CHECK(parse_mounts("/a:/b:")[0].target == "/b");
    using Options = std::vector<std::pair<std::string, std::string>>;
    CHECK(parse_mounts("tmpfs:/b:huge=within_size+size=50%")[0].options ==
          Options{{"huge", "within_size"}, {"size", "50%"}});
    CHECK(parse_mounts("umount:/b:x-detach")[0].kind == MountRequest::Kind::umount);
    // What a bind takes from the file system that it shows.
    for (const char* flag : {"noatime", "nodiratime", "strictatime", "lazytime", "nolazytime", "sync", "dirsync",
                             "mand", "iversion", "noiversion"}) {
        INFO(flag);
        CHECK(parse_mounts(std::string("/a:/b:ro+") + flag)[0] == parse_mounts("/a:/b:ro")[0]);
    }
    CHECK(refusal("/a:/b:suid").find("no mount in a container has set-user-id programs") != std::string::npos);
    for (const char* bad : {"/a:/b:size=1G", "tmpfs:/b:size=", "tmpfs:/b:size=1;2", "tmpfs:/b:uid=0", "/a:/b:x-detach",
                            "/a:/b:rprivat", "/a:/b:remount", "/a:/b:x-move", "/a:/b:ro++rw"}) {
        INFO(bad);
        CHECK_FALSE(refusal(bad).empty());
    }
}

TEST_CASE("mounts: what is in a squashfs file, read-only", "[request]") {
    using Kind = MountRequest::Kind;
    MountRequest data = parse_mounts("/lustre/data.sqsh:/data:squashfs")[0];
    CHECK(data.kind == Kind::squashfs);
    CHECK((data.source == "/lustre/data.sqsh" && data.target == "/data" && data.read_only));
    CHECK(parse_mounts("~/d.sqsh:/data:noexec+squashfs+ro+nofail+x-create=dir+loop")[0].optional);
    CHECK(parse_mounts("/d.sqsh::squashfs")[0].kind == Kind::squashfs);
    // As CSCS' environment files have it.
    CHECK(parse_mounts("/lustre/data.sqsh:/data:sqsh")[0] == data);
    CHECK(parse_mounts("/a.sqsh:/a:squashfs,/b.sqsh:/b:squashfs,/c:/c").size() == 3);
    CHECK_FALSE(parse_mounts("/a:/b:squashfs")[0] == parse_mounts("/a:/b:ro")[0]);
    for (const char* flags : {"rw+squashfs", "squashfs+rw", "bind+squashfs", "squashfs+x-create=file", "rbind+sqsh"}) {
        INFO(flags);
        CHECK(refusal(std::string("/a.sqsh:/a:") + flags).find("a squashfs file is a directory that is only read") !=
              std::string::npos);
    }
    CHECK(caret(refusal("/a.sqsh:/a:squashfs+rw")) == 20);
    CHECK(refusal("tmpfs:/a:squashfs").find("write FILE:DST:squashfs") != std::string::npos);
    CHECK(refusal("umount:/a:squashfs").find("write FILE:DST:squashfs") != std::string::npos);
    CHECK(refusal("/a:/b:loop").find("unknown flag") != std::string::npos);
    CHECK(refusal("/a.sqsh:/proc:squashfs").find("would hide") != std::string::npos);
}

TEST_CASE("hostile row 55: mounts: odd characters in a source are literal", "[request]") {
    CHECK(parse_mounts("/a b:/c")[0].source == "/a b");
    CHECK(parse_mounts("/a\\:b\\,c\\\\d:/e")[0].source == "/a:b,c\\d");
    CHECK(parse_mounts("/a\nb:/c")[0].source == "/a\nb");
    CHECK(parse_mounts("/$(touch x);`id`&|:/c")[0].source == "/$(touch x);`id`&|");
    CHECK(parse_mounts("/a\\x:/c")[0].source == "/a\\x");
}

TEST_CASE("mounts: mistakes have a caret below them", "[request]") {
    CHECK(caret(refusal("/a:/b,data:/c")) == 6);
    CHECK(refusal("data:/c").find("./data") != std::string::npos);
    CHECK(caret(refusal("/a:b")) == 3);
    CHECK(caret(refusal("/a:")) == 3);
    CHECK(caret(refusal("/a:/b:ro+wrong")) == 9);
    CHECK(caret(refusal("/a:/b:ro:x")) == 8);
    CHECK(caret(refusal("/a,,/b")) == 3);
    CHECK_FALSE(refusal("").empty());
    CHECK_FALSE(refusal("tmpfs").empty());
    CHECK_FALSE(refusal(std::string("/a\0b:/c", 7)).empty());
    CHECK_FALSE(refusal("/a:/" + std::string(5000, 'x')).empty());
}

TEST_CASE("hostile row 54: mounts: targets that would hide what must be there are refused", "[request]") {
    for (const char* target : {"/", "//", "/x/..", "/proc", "/proc/", "/proc/self", "/sys", "/dev", "/./dev/"}) {
        INFO(target);
        CHECK_FALSE(refusal(std::string("/a:") + target).empty());
    }
    for (const char* target : {"/process", "/dev/shm/x", "/system", "/devices"}) {
        INFO(target);
        CHECK(refusal(std::string("/a:") + target).empty());
    }
}

TEST_CASE("mounts: what is written as in fstab, or with a blank, is told how to be written", "[plan]") {
    CHECK(refusal("/a:/x:rw,ro").find("flags are joined by +; write +ro in place of ,ro") != std::string::npos);
    CHECK(caret(refusal("/a:/x:rw,ro")) == 9);
    CHECK(refusal("tmpfs:/x:size=1G,mode=700").find("write +mode=700") != std::string::npos);
    CHECK(refusal("/a:/x, /b:/y").find("take the blank out") != std::string::npos);
    CHECK(caret(refusal("/a:/x, /b:/y")) == 6);
    CHECK(refusal("/a: /x").find("take the blank out") != std::string::npos);
    CHECK(refusal("/a b:/x,/b:/y z").empty());
    CHECK(refusal("ro").find("write ./ro") != std::string::npos);
}
