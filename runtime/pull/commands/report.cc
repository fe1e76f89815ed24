// The command line of `berth report`.

#include <cstdio>
#include <string>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/config/command_line.hh"
#include "runtime/pull/commands/commands.hh"
#include "runtime/pull/export/output_file.hh"
#include "runtime/pull/report/model.hh"
#include "runtime/pull/report/read_events.hh"
#include "runtime/pull/report/text.hh"

namespace berth::pull {

namespace {

struct ReportArguments {
    std::string html, job;
    std::vector<std::string> site_logs, logs;
};

void add(std::vector<plan::Event>& out, report::EventFile read, const std::string& file) {
    out.insert(out.end(), std::make_move_iterator(read.events.begin()), std::make_move_iterator(read.events.end()));
    if (read.unread > 0)
        std::fprintf(stderr, "berth: %s: %s left out, since they are no events\n", printable(file, 4096).c_str(),
                     report::counted(read.unread, "line").c_str());
}

/// What one user has made of his file keeps nobody's from being read.
std::vector<plan::Event> events_of_site(const std::vector<std::string>& files) {
    std::vector<plan::Event> out;
    for (const std::string& file : files) try {
            add(out, report::read_events_of_users(file), file);
        } catch (const Error& problem) {
            std::fprintf(stderr, "berth: %s; left out\n", problem.what());
        }
    return out;
}

std::vector<plan::Event> all_events(const ReportArguments& arguments) {
    if (arguments.logs.empty()) return events_of_site(arguments.site_logs);
    std::vector<plan::Event> out;
    for (const std::string& file : arguments.logs) add(out, report::read_events(file), file);
    return out;
}

void write_page(const std::string& path, const std::string& page) {
    OutputFile file(path);
    sys::write_all(file.fd(), page, cat("writing ", printable(path, 4096)));
    file.publish(true);
}

template <typename Report>
void show(const Report& what, const std::string& html) {
    if (html.empty())
        std::fputs(report::text_of(what).c_str(), stdout);
    else
        write_page(html, report::page_of(what));
}

/// A log on a node's own disk has no other node's events.
void note_on_missing_job(const ReportArguments& arguments) {
    std::string files;
    for (const std::string& file : arguments.logs.empty() ? arguments.site_logs : arguments.logs)
        files += cat(files.empty() ? "" : ", ", printable(file, 4096));
    std::fprintf(stderr, "berth: no events of job %s in %s; unless events.log is on a path that all nodes see, each "
                 "node has its own: call this there, or name their files\n", printable(arguments.job).c_str(),
                 printable(files, 4096).c_str());
}

void show_report(const ReportArguments& arguments) {
    if (arguments.logs.empty() && arguments.site_logs.empty())
        throw Error("reading events: there is no log of them; set events.log in /etc/berth/berth.conf to a file, or "
                    "name files");
    std::vector<plan::Event> events = all_events(arguments);
    if (arguments.job.empty()) return show(report::report_of_site(events), arguments.html);
    report::JobReport job = report::report_of_job(events, arguments.job);
    if (job.steps.empty()) note_on_missing_job(arguments);
    show(job, arguments.html);
}

}  // namespace

int report_command(int argc, char** argv) {
    ReportArguments arguments;
    CommandLine line("Show what starts of containers took, from the events of a site.", "berth report");
    line.option("--html", arguments.html, "file to write a page to, with pictures; else text is printed");
    line.option("--job", arguments.job, "JOB or JOB.STEP: each node of its steps; else all starts, by hour and image")
        .completed_by(Completion::jobs);
    line.option("--site-log", arguments.site_logs, "").hidden();
    line.argument("file", arguments.logs, "files of events; the log of events.log");
    if (auto code = line.parse(argc, argv)) return *code;
    show_report(arguments);
    return 0;
}

}  // namespace berth::pull
