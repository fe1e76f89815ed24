// Files of Enroot and Pyxis, apart by a line "---": enroot.conf, environ.d, mounts.d, plugstack.conf, .credentials;
// then registries.conf of podman's and hosts.toml of containerd's.
#include <algorithm>

#include "runtime/config/site_file.hh"
#include "runtime/migrate/migrate.hh"
#include "tests/hostile/target.hh"

namespace {

using namespace berth;
using namespace berth::migrate;
using hostile::must;

/// What stands before the next such line, which is taken too.
std::string next_file(std::string_view& input) {
    constexpr std::string_view line = "\n---\n";
    size_t end = std::min(input.find(line), input.size());
    std::string out(hostile::take(input, end));
    hostile::take(input, line.size());
    return out;
}

/// A berth.conf with the keys that are to come, so that their values are made.
Answer any_key(const std::string& key, const std::string& value) {
    Answer answer = site_reader(key, value);
    return answer == Answer::no_key ? Answer::taken : answer;
}

void check(const Migration& migration) {
    for (const Finding& one : migration.findings)
        must(hostile::is_plain_line(one.text()), "a finding is no line for a terminal");
}

void run(std::string_view input) {
    Configuration from;
    from.settings = {{"enroot.conf", next_file(input)}};
    from.site.environ = {{"a.env", next_file(input)}};
    from.site.mounts = {{"a.fstab", next_file(input)}};
    from.plugstack = {{"plugstack.conf", next_file(input)}};
    from.users.emplace_back();
    from.users[0].credentials = {{".credentials", next_file(input)}};
    from.users[0].environ = from.site.environ;
    from.users[0].mounts = from.site.mounts;
    from.registries = {{"registries.conf", next_file(input)}};
    from.hosts = {{"certs.d/reg.example/hosts.toml", next_file(input)}};
    from.certificates = {"certs.d/reg.example/ca.crt"};
    Migration migration = migrated(from, site_reader);
    check(migration);
    must(plan::site_mistakes(migration.conf, "berth.conf").empty(), "berth.conf does not take what was written");
    check(migrated(from, any_key));
}

const hostile::Registration registration("migrate", run);

}  // namespace
