// Environment files, each the base of others, and what of them travels to the nodes.
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/config/environment_file.hh"
#include "tests/hostile/target.hh"

namespace {

using namespace berth::plan;

/// What was read is the same when the node reads it.
void check_text(const Definition& definition) {
    std::string text;
    berth::hostile::refusing([&] { text = definition_text(definition); });
    if (text.empty()) return;
    berth::hostile::must(berth::hostile::is_plain_line(text), "a definition that is not one plain line");
    berth::hostile::must(parse_definition(text) == definition, "a definition that is another one on the node");
    Request request;
    complete(request, definition);
    berth::hostile::must(request.mounts.size() <= definition.mounts.size(), "mounts that no file has");
}

/// The files are called a, b, c and so on, and stand one behind the other with a NUL between.
void run(std::string_view input) {
    std::vector<std::string> files = berth::split(input, '\0');
    auto find = [&](const std::string& name) -> FoundEnvironment {
        size_t number = name.size() == 1 ? static_cast<size_t>(name[0] - 'a') : files.size();
        if (number >= files.size()) throw berth::Error("there is no such file");
        return {name, files[number]};
    };
    auto value_of = [](const std::string& name) {
        return name.size() < 3 ? std::optional<std::string>("/value") : std::nullopt;
    };
    berth::hostile::refusing([&] { check_text(resolve_environment("a", find, value_of).definition); });
    berth::hostile::refusing([&] {
        Definition definition = parse_definition(input);
        berth::hostile::must(parse_definition(definition_text(definition)) == definition, "a definition that changes");
    });
    berth::hostile::refusing([&] { static_cast<void>(expanded(input, value_of)); });
}

const berth::hostile::Registration registration("environment_file", run);

}  // namespace
