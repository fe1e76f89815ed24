// The words after the plugin's name in plugstack.conf, a line each.
#include "runtime/base/text.hh"
#include "runtime/config/site_file.hh"
#include "spank/config.hh"
#include "tests/hostile/target.hh"

namespace {

using namespace berth;
using hostile::must;

void run(std::string_view input) {
    std::vector<std::string> words = split(input.substr(0, input.find('\0')), '\n');
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    hostile::refusing([&] {
        spank::Config config = spank::parse_config(static_cast<int>(arguments.size()), arguments.data());
        must(config.helper.starts_with('/'), "the helper is no absolute path");
        must(config.user_folders.empty() || config.user_folders[0] == '/', "the users' folders are no absolute path");
        must(config.run.inodes >= 16 && config.run.bytes <= UINT64_MAX >> 1, "a limit is out of range");
        // The helper takes them for settings of the site.
        plan::Site site;
        plan::apply_environment(site, config.settings);
    });
}

const hostile::Registration registration("plugstack", run);

}  // namespace
