#include "runtime/plan/visible_devices.hh"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <set>

#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/request/mig.hh"

namespace berth::plan {

namespace {

/// What the value of a vendor's own variable names among the devices of the container.
class Choice {
  public:
    Choice(const std::vector<VisibleDevice>& devices, const std::vector<bool>& accessible) : devices_(devices) {
        for (size_t i = 0; i < devices.size(); ++i)
            if (accessible[i]) open_.push_back(i);
        listed_ = open_;
        std::sort(listed_.begin(), listed_.end(),
                  [&](size_t one, size_t other) { return devices[one].position < devices[other].position; });
    }

    const std::vector<size_t>& open() const { return open_; }

    /// The devices that are to be visible, and whether the value says so already, as the vendor's library reads it in
    /// the container.
    struct Verdict {
        std::vector<size_t> wanted;
        bool right;
    };

    Verdict of(const std::string& value) const {
        Verdict verdict{{}, true};
        std::set<size_t> seen;
        for (const std::string& word : split(value, ',')) {
            std::optional<size_t> found = find(std::string(trimmed(word)), verdict.right);
            // A device named twice: Slurm counts otherwise than is thought here.
            if (!found || !seen.insert(*found).second) return {open_, false};
            verdict.wanted.push_back(*found);
        }
        return verdict;
    }

    /// Of a task that Slurm told nothing although it has devices: a library finds whole devices that it can open by
    /// itself, of slices only the first.
    Verdict of_nothing() const {
        bool whole = std::none_of(open_.begin(), open_.end(), [&](size_t i) { return devices_[i].slice; });
        return {open_, whole && open_.size() == devices_.size()};
    }

    /// Of a task whose job had its GPUs divided: Slurm's numbers are of GPUs, not of their MIG devices. Nothing where
    /// there are none.
    std::optional<Verdict> of_divided() const {
        Verdict verdict{{}, false};
        for (size_t i : open_)
            if (devices_[i].slice) verdict.wanted.push_back(i);
        return verdict.wanted.empty() ? std::nullopt : std::optional(verdict);
    }

  private:
    std::optional<size_t> find(const std::string& word, bool& right) const {
        uint64_t number = 0;
        if (!parse_number(word, 1 << 20, number)) return find_uuid(word);
        bool slices =
            std::any_of(devices_.begin(), devices_.end(), [](const VisibleDevice& device) { return device.slice; });
        // A device that this task may not open shows that Slurm keeps it from others, as the helper need not be.
        if (devices_[open_[0]].constrained || open_.size() < devices_.size()) {
            // Slurm counts what the job has, the library what it can open: the same unless there are slices, whose
            // parents count for the library.
            right &= !slices;
            return number < listed_.size() ? std::optional(listed_[number]) : std::nullopt;
        }
        // Slurm counts what the node has, the library what the container has.
        for (size_t i : open_)
            if (devices_[i].position == number) {
                right &= !slices && i == number;
                return i;
            }
        return std::nullopt;
    }

    /// Beginnings of UUIDs count too, as CUDA takes them.
    std::optional<size_t> find_uuid(const std::string& word) const {
        for (size_t i : open_)
            if (word.size() > 4 && devices_[i].uuid.starts_with(word)) return i;
        return std::nullopt;
    }

    const std::vector<VisibleDevice>& devices_;
    std::vector<size_t> open_;    ///< in the library's order
    std::vector<size_t> listed_;  ///< the same in Slurm's order
};

/// What a variable is to say of the devices that are wanted; nothing when nobody tells the UUID of one.
std::optional<std::string> value_of(DeviceVariable::Form form, const std::vector<VisibleDevice>& devices,
                                    const std::vector<size_t>& wanted, const std::vector<size_t>& open) {
    std::string out;
    for (size_t i : wanted) {
        if (form == DeviceVariable::Form::uuid && devices[i].uuid.empty()) return std::nullopt;
        auto at = static_cast<uint64_t>(std::find(open.begin(), open.end(), i) - open.begin());
        out += cat(out.empty() ? "" : ",", form == DeviceVariable::Form::uuid ? devices[i].uuid : cat(at));
    }
    return out;
}

/// "0,1,2"
std::string first_numbers(size_t count) {
    std::string out;
    for (size_t i = 0; i < count; ++i) out += cat(i == 0 ? "" : ",", i);
    return out;
}

bool is_set(const std::vector<std::string>& environment, const char* name) {
    const char* value = variable(environment, name);
    return value && *value != '\0';
}

/// --mig-per-task: of the MIG devices in `verdict` the one that is this task's.
void take_own(Choice::Verdict& verdict, const std::vector<VisibleDevice>& devices,
              const std::vector<std::string>& environment) {
    std::vector<size_t> slices;
    for (size_t i : verdict.wanted)
        if (devices[i].slice) slices.push_back(i);
    if (slices.empty()) return;
    uint64_t task = 0;
    if (!parse_number(value_in(environment, "SLURM_LOCALID"), UINT32_MAX, task)) return;
    if (task >= slices.size())
        throw Error(cat("--mig-per-task: this is task ", task, " of the node, counted from 0, and the step has ",
                        slices.size(), " MIG devices there; start fewer tasks on a node"));
    verdict = {{slices[task]}, false};
}

/// Of one vendor, all its variables.
std::vector<std::pair<std::string, std::string>> changes_of(const VisibleDevices& vendor, const Accessible& accessible,
                                                            const std::vector<std::string>& environment) {
    if (vendor.variables.empty()) return {};
    Choice choice(vendor.devices, accessible(vendor.devices));
    if (choice.open().empty()) return {};
    const char* value = variable(environment, vendor.variables[0].name);
    // Slurm's words for none.
    if (value && (*value == '\0' || std::string_view(value) == "NoDevFiles")) return {};
    auto divided = is_set(environment, mig_variable) ? choice.of_divided() : std::nullopt;
    Choice::Verdict verdict = divided ? *divided : value ? choice.of(value) : choice.of_nothing();
    if (is_set(environment, mig_per_task_variable)) take_own(verdict, vendor.devices, environment);
    std::vector<std::pair<std::string, std::string>> changes;
    for (const DeviceVariable& one : vendor.variables) {
        const char* present = variable(environment, one.name);
        if (one.form == DeviceVariable::Form::nested) {
            std::string text = first_numbers(verdict.wanted.size());
            if (value && present && std::string_view(present) == value && text != present)
                changes.emplace_back(one.name, text);
            continue;
        }
        if (verdict.right || (!changes.empty() && !present)) continue;
        auto text = value_of(one.form, vendor.devices, verdict.wanted, choice.open());
        if (!text) return {};
        changes.emplace_back(one.name, *text);
    }
    return changes;
}

}  // namespace

std::string visible_device_text(const VisibleDevice& device) {
    std::string out = cat(device.uuid.empty() ? "-" : device.uuid, ' ', device.slice ? 1 : 0, ' ',
                          device.constrained ? 1 : 0, ' ', device.position);
    for (const std::string& node : device.nodes) out += ' ' + node;
    return out;
}

VisibleDevice parse_visible_device(const std::string& text) {
    std::vector<std::string> words = split(text, ' ');
    uint64_t slice = 0, constrained = 0, position = 0;
    if (words.size() < 4 || !parse_number(words[1], 1, slice) || !parse_number(words[2], 1, constrained) ||
        !parse_number(words[3], 1 << 20, position))
        throw Error("reading a message of berth's helper: a device that is none");
    return {.uuid = words[0] == "-" ? "" : words[0],
            .slice = slice == 1,
            .constrained = constrained == 1,
            .position = static_cast<unsigned>(position),
            .nodes = {words.begin() + 4, words.end()}};
}

std::string device_variable_text(const DeviceVariable& variable) {
    return cat(variable.form == DeviceVariable::Form::uuid ? "uuid " : "position ", variable.name);
}

DeviceVariable parse_device_variable(const std::string& text) {
    std::vector<std::string> words = split(text, ' ');
    bool uuid = words[0] == "uuid";
    if (words.size() != 2 || words[1].empty() || (!uuid && words[0] != "position"))
        throw Error("reading a message of berth's helper: a variable of devices that is none");
    return {words[1], uuid ? DeviceVariable::Form::uuid : DeviceVariable::Form::position};
}

std::vector<bool> accessible_devices(const std::vector<VisibleDevice>& devices) {
    std::vector<bool> out;
    for (const VisibleDevice& device : devices)
        // Nodes of slices can be read by all and written by nobody.
        out.push_back(std::all_of(device.nodes.begin(), device.nodes.end(),
                                  [](const std::string& node) { return ::access(node.c_str(), R_OK) == 0; }));
    return out;
}

std::vector<std::pair<std::string, std::string>> visible_device_changes(const std::vector<VisibleDevices>& vendors,
                                                                        const Accessible& accessible,
                                                                        const std::vector<std::string>& environment) {
    std::vector<std::pair<std::string, std::string>> changes;
    for (const VisibleDevices& vendor : vendors)
        for (const auto& change : changes_of(vendor, accessible, environment)) {
            // Slurm sets the variables of all vendors to the same numbers.
            bool of_another = std::any_of(vendors.begin(), vendors.end(), [&](const VisibleDevices& other) {
                return &other != &vendor && !other.variables.empty() && other.variables[0].name == change.first;
            });
            if (!of_another) changes.push_back(change);
        }
    return changes;
}

}  // namespace berth::plan
