// The record of a named container, and records as they are. The first byte of an input says whether it lacks the first
// line, without which few get far.
#include "runtime/base/text.hh"
#include "runtime/enroot/data_path.hh"
#include "runtime/plan/container.hh"
#include "runtime/plan/records.hh"
#include "tests/hostile/target.hh"

namespace {

using namespace berth;
using hostile::must;

void run_records(std::string_view input) {
    for (;;) {
        std::string_view before = input;
        auto record = plan::take_record(input, 1 << 16);
        if (!record) {
            must(input.data() == before.data() && input.size() == before.size(), "what is no record is taken");
            return;
        }
        must(record->value.size() <= 1 << 16, "a value is longer than the limit");
        must(record->key.find_first_of(" \n") == record->key.npos, "a key has a blank in it");
        std::string text;
        plan::add_record(text, record->key, record->value);
        std::string_view rest = text;
        auto again = plan::take_record(rest, 1 << 16);
        must(again && again->key == record->key && again->value == record->value && rest.empty(),
             "a record that is written is another one");
    }
}

void run_container(const std::string& text) {
    plan::ContainerRecord record = plan::parse_record(text, "the state of container c");
    std::string written = plan::record_text(record);
    plan::ContainerRecord again = plan::parse_record(written, "again");
    must(again == record, "a container that is recorded is another one");
    must(plan::record_text(again) == written, "a record that is written twice changes");
    plan::Request wanted;
    plan::take_recorded_options(wanted, record, true);
}

void run_data_path(std::string_view input) {
    enroot::DataPath path = enroot::parse_data_path(input);
    must(enroot::parse_data_path(enroot::data_path_text(path)) == path, "a data path that is noted is another one");
}

void run(std::string_view input) {
    bool whole = hostile::take_byte(input) % 2 == 0;
    run_records(input);
    run_data_path(input);
    hostile::refusing([&] { run_container(whole ? std::string(input) : cat("berth-container 1\n", input)); });
}

const hostile::Registration registration("records", run);

}  // namespace
