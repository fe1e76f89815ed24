#include "runtime/cli/listing.hh"

#include <unistd.h>

#include <cstdio>
#include <ctime>

#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/config/site_file.hh"
#include "runtime/host/facts.hh"
#include "runtime/host/pull_program.hh"
#include "runtime/images/open.hh"

namespace berth::cli {

plan::Site site_of_caller() {
    plan::Site site = load_site();
    plan::apply_environment(site, environment_of_this_process());
    return site;
}

store::Store open_callers_store(const plan::Site& site) {
    plan::Caller caller = caller_of_this_process();
    if (std::string note = note_on_store(site, caller); !note.empty())
        std::fprintf(stderr, "berth: %s\n", note.c_str());
    store::Store store = open_store(site, caller);
    for (const std::string& line : store.refused()) std::fprintf(stderr, "berth: %s\n", line.c_str());
    return store;
}

store::Store store_of_caller() { return open_callers_store(site_of_caller()); }

std::string short_digest(const std::string& digest) { return digest.substr(7, 12); }

namespace {

std::vector<std::string> names_of(const std::vector<store::StoredTag>& tags) {
    std::vector<std::string> out;
    for (const store::StoredTag& tag : tags) out.push_back(printable(tag.text(), 1024));
    return out;
}

}  // namespace

std::vector<std::string> tag_names(const store::StoredImage& image) { return names_of(image.tags); }
std::vector<std::string> tag_names(const store::ComingImage& image) { return names_of(image.tags); }

std::string shown_time(int64_t seconds) {
    std::time_t time = seconds;
    std::tm fields{};
    ::localtime_r(&time, &fields);
    char text[64];
    return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &fields)};
}

std::string iso_time(int64_t seconds) {
    std::time_t time = seconds;
    std::tm fields{};
    ::gmtime_r(&time, &fields);
    char text[64];
    return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &fields)};
}

std::string json_list(const std::vector<std::string>& texts) {
    std::string out;
    for (const std::string& text : texts) out += (out.empty() ? "" : ",") + json_text(text);
    return "[" + out + "]";
}

const store::StoredImage& find_image(const store::Inventory& inventory, const std::string& text,
                                     const store::Store& store) {
    const store::StoredImage* image = inventory.find(text);
    if (!image)
        throw Error(cat("image ", printable(text, 1024), ": not in the store ", printable(store.path()),
                        "; berth images lists what is, and each node has a store of its own"));
    return *image;
}

void exec_pull_program(std::vector<std::string> arguments) {
    std::string program = pull_program();
    std::vector<char*> pointers{program.data()};
    for (std::string& one : arguments) pointers.push_back(one.data());
    pointers.push_back(nullptr);
    ::execv(program.c_str(), pointers.data());
    throw SysError("starting " + program);
}

std::vector<std::string> pull_program_words(const std::string& word, const plan::Site& site, const store::Store& store,
                                            const std::vector<std::string>& arguments) {
    std::vector<std::string> words{word, "--store", store.location()};
    for (const std::string& one : site_arguments()) words.push_back(one);
    for (const auto& [host, registry] : site.registries)
        if (registry.plain_http) words.insert(words.end(), {"--plain-http", host});
    words.insert(words.end(), arguments.begin(), arguments.end());
    return words;
}

void become_pull_program(const std::string& word, const std::vector<std::string>& arguments) {
    plan::Site site = site_of_caller();
    exec_pull_program(pull_program_words(word, site, open_callers_store(site), arguments));
}

}  // namespace berth::cli
