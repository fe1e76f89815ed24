#include "runtime/plan/container.hh"

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/plan/records.hh"
#include "runtime/request/options.hh"

namespace berth::plan {

namespace {

constexpr std::string_view form = "berth-container ", heading = "berth-container 1\n";
/// Not that it be removed: what the container wrote is whole.
constexpr const char* remedy =
    "a newer release of berth has written it: use that one, which can also save the container (berth save)";
constexpr uint64_t value_limit = 1 << 20;

/// False for a key or value that this version does not know.
bool set_option(Request& options, std::string_view key, const std::string& text, const std::string& what) {
    for (const Option& option : option_table())
        if (option.record.key != nullptr && key == option.record.key)
            return option.record.add_text(options, text, cat(what, ": ", key));
    return false;
}

void set(ContainerRecord& record, std::string_view key, std::string value, const std::string& what) {
    uint64_t number = 0;
    if (key == "image")
        record.image = std::move(value);
    else if (key == "digest")
        record.digest = std::move(value);
    else if (key == "image-file")
        record.image_file = std::move(value);
    else if (key == "identity")
        record.identity = std::move(value);
    else if (key == "created" && parse_number(value, INT64_MAX, number))
        record.created = static_cast<int64_t>(number);
    else if (!set_option(record.options, key, value, what))
        throw Error(cat("reading ", what, ": this berth does not know the record '", printable(key), "'; ", remedy));
}

}  // namespace

std::string record_text(const ContainerRecord& record) {
    std::string out(heading);
    add_record(out, "image", record.image);
    add_record(out, "digest", record.digest);
    add_record(out, "image-file", record.image_file);
    add_record(out, "identity", record.identity);
    add_record(out, "created", std::to_string(record.created));
    for (const Option& option : option_table())
        if (option.record.key != nullptr)
            for (const std::string& text : option.record.texts(record.options))
                add_record(out, option.record.key, text);
    return out;
}

ContainerRecord parse_record(std::string_view text, const std::string& what) {
    auto damaged = [&] {
        return Error(cat("reading ", what, ": it is damaged; remove the container with berth rm"));
    };
    if (!text.starts_with(heading) && text.starts_with(form))
        throw Error(cat("reading ", what, ": it has form ",
                        printable(text.substr(form.size(), text.find('\n') - form.size())), ", this berth reads 1; ",
                        remedy));
    if (!text.starts_with(heading)) throw damaged();
    text.remove_prefix(heading.size());
    ContainerRecord out;
    while (!text.empty()) {
        std::optional<Record> record = take_record(text, value_limit);
        if (!record) throw damaged();
        set(out, record->key, std::string(record->value), what);
    }
    return out;
}

void take_recorded_options(Request& wanted, const ContainerRecord& record, bool for_exec) {
    for (const Option& option : option_table()) {
        const RecordedOption& recorded = option.record;
        bool read = for_exec || recorded.reader == RecordedOption::Reader::exec_and_run;
        if (recorded.key == nullptr || !read || !recorded.texts(wanted).empty()) continue;
        for (const std::string& text : recorded.texts(record.options)) recorded.add_text(wanted, text, recorded.key);
    }
}

NameAction action_for(const ContainerName& wanted, bool exists, bool runs) {
    auto refuse = [&](const char* why) { throw Error(cat("container ", wanted.name, ": ", why)); };
    if (wanted.mode == NameMode::create && exists)
        refuse("it exists already (asked for with :create); use another name, or remove it with berth rm");
    if (wanted.mode == NameMode::exec && !runs)
        refuse(exists ? "it does not run (asked for with :exec)" : "there is none of that name (asked for with :exec)");
    if (wanted.mode == NameMode::no_exec && exists && runs) return NameAction::beside;
    return runs ? NameAction::join : exists ? NameAction::start : NameAction::create;
}

}  // namespace berth::plan
