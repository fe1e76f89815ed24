// Lines of events.log, which users write, and the report that is made of them.
#include "runtime/pull/report/model.hh"
#include "runtime/pull/report/read_events.hh"
#include "runtime/pull/report/text.hh"
#include "tests/hostile/target.hh"

namespace {

using namespace berth::pull::report;

/// What users wrote is text on the page, and no markup of it.
void check_page(const std::string& page) {
    berth::hostile::must(page.find("<script") == page.npos, "a page with a script");
    for (unsigned char c : page) berth::hostile::must(c == '\n' || (c >= ' ' && c != 0x7f), "a control character");
}

void run(std::string_view input) {
    std::vector<berth::plan::Event> events;
    std::string job;
    while (!input.empty())
        if (auto event = parse_event(berth::hostile::take_line(input))) {
            job = event->job;
            events.push_back(std::move(*event));
        }
    check_page(page_of(report_of_site(events)));
    text_of(report_of_site(events));
    JobReport report = report_of_job(events, job.substr(0, job.find('.')));
    check_page(page_of(report));
    text_of(report);
}

const berth::hostile::Registration registration("events", run);

}  // namespace
