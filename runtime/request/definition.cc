#include "runtime/request/definition.hh"

#include <algorithm>

#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/request/mounts.hh"

namespace berth::plan {

const char* const definition_variable = "SLURM_BERTH_ENVIRONMENT";
const char* const definition_named_variable = "SLURM_BERTH_ENVIRONMENT_NAMED";

namespace {

constexpr std::string_view digits = "0123456789abcdef";

/// Blanks part the fields.
std::string escaped(std::string_view text) {
    std::string out;
    for (char c : text) {
        auto byte = static_cast<unsigned char>(c);
        if (byte > ' ' && byte < 0x7f && c != '%')
            out += c;
        else
            out += cat('%', digits[byte >> 4], digits[byte & 15]);
    }
    return out;
}

std::string unescaped(std::string_view text) {
    std::string out;
    for (size_t at = 0; at < text.size(); ++at) {
        if (text[at] != '%') {
            out += text[at];
            continue;
        }
        size_t high = at + 2 < text.size() ? digits.find(text[at + 1]) : digits.npos;
        size_t low = high != digits.npos ? digits.find(text[at + 2]) : digits.npos;
        if (low == digits.npos || (high | low) == 0)
            throw Error("the environment that srun or sbatch read: it was changed on its way");
        out += static_cast<char>(high << 4 | low);
        at += 2;
    }
    return out;
}

/// The fields that may be there several times.
struct List {
    std::string_view word;
    std::vector<std::string> Definition::*member;
};
constexpr List lists[] = {{"mount", &Definition::mounts},
                          {"variable", &Definition::variables},
                          {"device", &Definition::devices},
                          {"replaced", &Definition::replaced}};

void add_field(Definition& definition, std::string_view word, std::string value) {
    for (const List& list : lists)
        if (list.word == word) {
            (definition.*list.member).push_back(std::move(value));
            return;
        }
    if (word.starts_with("container-") || word.starts_with("no-container-")) {
        add_option(definition.options, word, value);
        return;
    }
    throw Error(cat("the environment ", printable(definition.name), ": the berth of this node does not know '",
                    printable(word), "' of it, which that of srun does; choose nodes of srun's release"));
}

bool contradict(const std::string& one, const std::string& other) {
    const SrunOption* option = srun_option(one);
    return one == other || (option != nullptr && option->opposite != nullptr && other == option->opposite);
}

bool has(const GivenOptions& options, const std::string& name) {
    return std::any_of(options.begin(), options.end(), [&](const auto& one) { return contradict(one.first, name); });
}

void complete_mounts(Request& request, const Definition& definition) {
    Request of_file;
    for (const std::string& text : definition.mounts) {
        std::vector<MountRequest> parsed = parse_mounts(text);
        bool replaced = std::all_of(parsed.begin(), parsed.end(), [&](const MountRequest& mount) {
            return std::any_of(request.mounts.begin(), request.mounts.end(),
                               [&](const MountRequest& other) { return other.target == mount.target; });
        });
        if (replaced) continue;
        of_file.mounts.insert(of_file.mounts.end(), parsed.begin(), parsed.end());
        of_file.mount_texts.push_back(text);
    }
    request.mounts.insert(request.mounts.begin(), of_file.mounts.begin(), of_file.mounts.end());
    request.mount_texts.insert(request.mount_texts.begin(), of_file.mount_texts.begin(), of_file.mount_texts.end());
}

}  // namespace

std::string definition_text(const Definition& definition) {
    std::string out = escaped(definition.name);
    for (const auto& [name, value] : definition.options) out += cat(' ', name, '=', escaped(value));
    for (const List& list : lists)
        for (const std::string& value : definition.*list.member) out += cat(' ', list.word, '=', escaped(value));
    if (out.size() > definition_limit)
        throw Error(cat("the environment ", printable(definition.name, 1024),
                        " with all that it is based on has more than ", definition_limit >> 10,
                        " KiB; leave something out"));
    return out;
}

Definition parse_definition(std::string_view text) {
    Definition out;
    std::vector<std::string> fields = split(text, ' ');
    out.name = unescaped(fields[0]);
    for (size_t at = 1; at < fields.size(); ++at) {
        size_t equals = std::min(fields[at].find('='), fields[at].size() - 1);
        if (fields[at].empty() || fields[at][equals] != '=')
            throw Error("the environment that srun or sbatch read: it was changed on its way");
        add_field(out, fields[at].substr(0, equals), unescaped(std::string_view(fields[at]).substr(equals + 1)));
    }
    return out;
}

std::optional<Definition> definition_in(const std::vector<std::string>& environment, std::string_view name) {
    const char* text = variable(environment, definition_variable);
    if (text == nullptr) return std::nullopt;
    std::string_view first = std::string_view(text).substr(0, std::string_view(text).find(' '));
    if (first != escaped(name)) return std::nullopt;
    return parse_definition(text);
}

void replace_options(GivenOptions& options, Definition& definition, const GivenOptions& flags) {
    for (const auto& [name, value] : options)
        if (has(definition.options, name) && given(flags, name) == nullptr) definition.replaced.push_back(name);
    remove_replaced(options, definition);
}

void remove_replaced(GivenOptions& options, const Definition& definition) {
    for (const std::string& name : definition.replaced) remove_option(options, name);
}

void remove_unwanted(Definition& definition, const GivenOptions& options) {
    for (const auto& [name, value] : options)
        if (is_none(name, value)) remove_option(definition.options, name);
}

void complete(Request& request, const Definition& definition) {
    Request of_file = request_of(definition.options);
    if (!request.image) request.image = of_file.image;
    if (!request.workdir) request.workdir = of_file.workdir;
    if (!request.name) request.name = of_file.name;
    for (std::optional<bool> Request::*choice :
         {&Request::mount_home, &Request::remap_root, &Request::writable, &Request::entrypoint})
        if (!(request.*choice)) request.*choice = of_file.*choice;
    complete_mounts(request, definition);
    request.variables = definition.variables;
    request.devices = definition.devices;
}

}  // namespace berth::plan
