// Environments, NAME=VALUE with NULs between them, as those of a step, a job and an image come: options that they hold,
// answers of srun, what a task's becomes. And the files in which Enroot and Apptainer keep an image's, and values as
// Apptainer's users write them. The first byte of an input chooses.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/apptainer/inspect.hh"
#include "runtime/apptainer/variables.hh"
#include "runtime/base/text.hh"
#include "runtime/images/file.hh"
#include "runtime/images/sif_environment.hh"
#include "runtime/enroot/site_files.hh"
#include "runtime/plan/job_environment.hh"
#include "runtime/plan/plan.hh"
#include "runtime/request/carried.hh"
#include "runtime/request/environment_options.hh"
#include "runtime/request/expand.hh"
#include "runtime/request/frozen.hh"
#include "runtime/request/option_names.hh"
#include "tests/hostile/target.hh"

namespace {

using namespace berth;
using hostile::must;
using Texts = std::vector<std::string>;

void run_options(const Texts& environment) {
    hostile::refusing([&] {
        plan::GivenOptions options;
        plan::add_carried_options(options, environment);
        plan::GivenOptions carried = options;
        plan::add_carried_options(carried, environment);
        must(carried == options, "what a batch script was left is something else the second time");
        plan::missing_note(options, environment);
        plan::add_environment_options(options, environment);
        plan::GivenOptions again = options;
        plan::add_environment_options(again, environment);
        must(again == options, "options of the environment are others the second time");
        plan::request_of(options);
    });
}

void run_answers(const Texts& environment) {
    const std::string image = "debian:12";
    hostile::refusing([&] {
        if (auto frozen = plan::frozen_digest(environment, image))
            must(plan::frozen_digest({cat(plan::frozen_variable, "=", plan::frozen_value(image, *frozen))}, image) ==
                     frozen,
                 "a digest that is told again is another one");
    });
    hostile::refusing([&] { plan::check_option_names(environment); });
    std::vector<std::string> refused = plan::refused_logins(environment, image);
    must(refused.empty() ||
             plan::refused_logins({cat(plan::refused_variable, "=", plan::refused_value(image, refused))}, image) ==
                 refused,
         "logins that are told again are others");
    plan::agreement_address(environment, image, "n1", 0);
    plan::pmix_note(environment, true);
    for (const plan::JobPath& folder : plan::pmix_folders(environment, "", 1000, "7.0"))
        must(folder.path.starts_with('/') && plan::normalised(folder.path) == folder.path, "a folder is no plain path");
    for (const std::string& list : environment)
        must(plan::first_node(list).size() <= list.size(), "a node's name is longer than the list");
}

/// The first half is the image's, the second the task's.
void run_task(const Texts& all) {
    ptrdiff_t half = static_cast<ptrdiff_t>(all.size()) / 2;
    plan::EnvironmentRules rules{
        {all.begin(), all.begin() + half}, {"KEPT"}, {"LANG"}, {"HOME=/root"}, "/run/slurm.conf"};
    Texts task(all.begin() + half, all.end());
    for (const auto& [name, value] : plan::environment_changes(rules, task)) {
        must(!name.empty() && name.find('=') == name.npos, "a change has no name that is one");
        bool is_secret = name == plan::agreement_variable;
        must(value || name == "LANG" || is_secret, "a variable goes that may stay");
        must(!value || !is_secret, "the step's secret stays");
        auto is_kept = [&](const std::string& text) { return text.starts_with("KEPT="); };
        must(name != "KEPT" || std::none_of(task.begin(), task.end(), is_kept), "a variable of the task's is lost");
    }
}

void run_enroot(std::string_view input) {
    std::string environment(input.substr(0, input.size() / 2)), rc(input.substr(input.size() / 2));
    plan::ImageConfig config = config_of_enroot(environment, rc);
    for (const std::string& text : config.env)
        must(text.find('=') != text.npos && text[0] != '=' && text.find('\n') == text.npos &&
                 text.find('\0') == text.npos,
             "what is no variable is one");
    must(config.working_dir.empty() || config.working_dir[0] == '/', "a working directory is no absolute path");
    must(config.working_dir.find('\0') == std::string::npos, "a path has a NUL in it");
}

void run_apptainer(std::string_view input) {
    SifEnvironment read;
    read.read(input);
    for (const std::string& text : read.env) {
        must(text.find('=') != text.npos && text[0] != '=', "what is no variable is one");
        must(text.find('\n') == text.npos && text.find('\0') == text.npos, "a value has a line end or a NUL in it");
    }
}

/// An image whose files all have this content.
void run_inspect(std::string_view input) {
    apptainer::ImageReader image{[&](const std::string&) { return std::string(input); },
                                 [&](const std::string& path) {
                                     return path.ends_with("/env") ? Texts{"90-environment.sh"} : Texts{"a"};
                                 }};
    must(nlohmann::json::accept(apptainer::inspected({.all = true}, image)), "what inspect prints is no JSON");
    must(apptainer::inspected({.runscript = true}, image).size() <= input.size() + 1, "a script became longer");
}

/// A value of APPTAINERENV_X.
void run_values(std::string_view input) {
    apptainer::Variables made = apptainer::variables_of({}, {}, {cat("APPTAINERENV_X=", input)}, {});
    must(made.set.size() + made.expanded.size() + made.evaluated.size() == 1, "a value is lost, or there twice");
    // None is a name that has to be there.
    for (const std::string& text : made.expanded) plan::expanded(text, [](auto&) { return std::nullopt; });
}

/// A site's environ.d and mounts.d, and the variables of the job that they name.
void run_enroot_files(std::string_view input) {
    enroot::VariableValue value = [&](const std::string& name) { return std::string(input.substr(0, name.size())); };
    for (const std::string& text : enroot::variable_lines(input, value))
        must(text.find('=') != text.npos && text[0] != '=' && text.find('\0') == text.npos &&
                 !text.starts_with("ENROOT_"),
             "what is no variable is one");
    for (const enroot::FstabLine& line : enroot::mount_lines(input, value)) {
        must(line.number > 0, "a line has no number");
        must(line.left_out.find('\n') == line.left_out.npos, "a reason has more than a line");
        if (!line.left_out.empty()) continue;
        must(plan::forbidden_target(line.mount.target).empty(), "a mount over what every container needs");
        must(line.mount.source.empty() || line.mount.source.starts_with('/'),
             "a source is no absolute path");
    }
}

void run(std::string_view input) {
    unsigned which = hostile::take_byte(input) % 8;
    if (which == 0) run_options(split(input, '\0'));
    if (which == 1) run_answers(split(input, '\0'));
    if (which == 2) run_task(split(input, '\0'));
    if (which == 3) run_enroot(input);
    if (which == 4) run_enroot_files(input);
    if (which == 5) run_apptainer(input);
    if (which == 6) run_inspect(input);
    if (which == 7) run_values(input);
}

const hostile::Registration registration("environment", run);

}  // namespace
