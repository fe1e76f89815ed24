#include "hooks/rdma/rdma.hh"

#include <algorithm>
#include <set>

#include "hooks/edits.hh"
#include "hooks/rdma/userspace.hh"
#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/request/mounts.hh"

namespace berth::hooks {

namespace {

const std::string variable_name = "MELLANOX_VISIBLE_DEVICES";
// Above what kernels (8 MiB) and systemd give by default, below what anybody sets for RDMA.
constexpr uint64_t little_memory = 64 << 20;

std::string ibdev_of(const Host& host, const std::string& folder) {
    return std::string(trimmed(host.read(folder + "/ibdev").value_or("")));
}

std::string last_part(const std::string& path) { return path.substr(path.rfind('/') + 1); }

[[noreturn]] void refuse(const std::string& word, const std::string& why) {
    throw Error(cat(variable_name, ": ", printable(word), " ", why));
}

/// The addresses of ports that are bonded with the one at `bus`. Their adapter has the address of one of them.
std::set<std::string> bonded_with(const Host& host, const std::string& bus) {
    const std::string interfaces = "/sys/class/net/";
    std::set<std::string> out;
    for (const std::string& name : host.list(cat("/sys/bus/pci/devices/", bus, "/net"))) {
        auto bond = host.link_target(interfaces + name + "/master");
        auto members = bond ? host.read(cat(interfaces, last_part(*bond), "/bonding/slaves")) : std::nullopt;
        for (const std::string& member : split(members ? std::string(trimmed(*members)) : "", ' '))
            if (auto device = host.link_target(interfaces + member + "/device"))
                out.insert(normal_bus(last_part(*device)));
    }
    out.erase("");
    return out;
}

const Adapter& named(const Host& host, const std::vector<Adapter>& adapters, const std::string& word) {
    uint64_t number = 0;
    if (parse_number(word, 1 << 20, number)) {
        if (number >= adapters.size())
            refuse(word, cat("is no adapter: this node has ", adapters.size(), ", counted from 0"));
        return adapters[number];
    }
    std::string bus = normal_bus(word);
    for (const Adapter& adapter : adapters)
        if (adapter.name == word || adapter.verbs == word || (!bus.empty() && adapter.bus == bus)) return adapter;
    if (!bus.empty())
        for (const std::set<std::string> bonded = bonded_with(host, bus); const Adapter& adapter : adapters)
            if (bonded.contains(adapter.bus)) return adapter;
    refuse(word,
           "is no adapter of this node (all, an index, a name such as mlx5_0, uverbs0 or cxi0, or an address on the "
           "PCI bus)");
}

void add_topology(plan::ContainerEdits& out, const Host& host, const RdmaRequest& request) {
    if (request.topology.empty()) return;
    bool usable =
        request.topology.starts_with('/') && plan::forbidden_target(plan::normalised(request.topology)).empty();
    std::string path = plan::normalised(request.topology);
    if (usable && host.exists(path))
        out.edits.push_back(file_edit(host, path, path, "variable NCCL_TOPO_FILE", "the topology for NCCL"));
    else
        out.warnings.push_back(cat("NCCL_TOPO_FILE=", printable(request.topology, 1024),
                                   " is no file of this node that can be mounted; it is left out"));
}

/// What NCCL and the library of SHARP need for a job that was given a tree of the network (srun --network=sharp), as
/// the network's documentation has it.
std::vector<std::string> sharp_environment(const std::vector<std::string>& image, const std::vector<std::string>& job) {
    const char* network = variable(job, "SLURM_NETWORK");
    std::vector<std::string> words = split(network ? network : "", ','), out;
    if (std::none_of(words.begin(), words.end(),
                     [](const std::string& word) { return lower(trimmed(word)) == "sharp"; }))
        return out;
    auto set = [&](const std::string& name, const std::string& value) {
        if (!variable(job, name) && !variable(image, name)) out.push_back(name + "=" + value);
    };
    set("SHARP_COLL_LOCK_ON_COMM_INIT", "1");
    set("SHARP_COLL_NUM_COLL_GROUP_RESOURCE_ALLOC_THRESHOLD", "0");
    set("NCCL_COLLNET_ENABLE", "1");
    const char* nodes = variable(job, "SLURM_STEP_NUM_NODES");
    if (!nodes) nodes = variable(job, "OMPI_MCA_orte_num_nodes");
    if (uint64_t number = 0; nodes && parse_number(nodes, UINT32_MAX, number))
        set("NCCL_SHARP_GROUP_SIZE_THRESH", nodes);
    return out;
}

}  // namespace

std::vector<Adapter> chosen_adapters(const Host& host, const std::vector<Adapter>& adapters,
                                     const RdmaRequest& request) {
    std::vector<Adapter> out;
    if (request.all)
        for (const Adapter& adapter : adapters)
            if (adapter.open) out.push_back(adapter);
    std::set<std::string> taken;
    for (const std::string& word : request.devices) {
        const Adapter& adapter = named(host, adapters, word);
        if (!adapter.open) refuse(word, cat("(", adapter.node(), ") may not be opened by this step"));
        if (taken.insert(adapter.name).second) out.push_back(adapter);
    }
    return out;
}

RdmaRequest rdma_request(plan::RdmaMode mode, const std::vector<std::string>& image,
                         const std::vector<std::string>& job) {
    RdmaRequest out;
    if (mode == plan::RdmaMode::off) return out;
    const char *of_job = variable(job, variable_name), *of_image = variable(image, variable_name);
    auto text_of = [](const char* value) { return std::string(value ? trimmed(value) : ""); };
    auto asks = [&](const char* value) {
        std::string word = lower(text_of(value));
        return !word.empty() && word != "void" && word != "none";
    };
    const char* value = of_job ? of_job : of_image;
    out.named = asks(value);
    out.wanted = out.named || (mode == plan::RdmaMode::automatic && !of_job);
    if (!out.wanted) return out;
    for (const std::string& part : split(out.named ? text_of(value) : "all", ',')) {
        std::string token(trimmed(part));
        if (lower(token) == "all") out.all = true;
        if (!token.empty()) out.devices.push_back(token);
    }
    if (out.all) out.devices.clear();
    if (const char* topology = variable(job, "NCCL_TOPO_FILE")) out.topology = topology;
    out.environment = sharp_environment(image, job);
    // Slurm carries the limits of a submitting shell in the environment, and sets them in the tasks alone.
    const char* locked = variable(job, "SLURM_RLIMIT_MEMLOCK");
    if (uint64_t bytes = 0; locked && parse_number(locked, UINT64_MAX, bytes)) out.locked_memory = bytes;
    return out;
}

std::string Adapter::node() const { return verbs.empty() ? "/dev/" + name : "/dev/infiniband/" + verbs; }

std::vector<Adapter> find_adapters(const Host& host) {
    std::vector<Adapter> out;
    for (const std::string& verbs : host.list("/sys/class/infiniband_verbs")) {
        if (!verbs.starts_with("uverbs")) continue;
        Adapter adapter;
        adapter.verbs = verbs;
        adapter.name = ibdev_of(host, "/sys/class/infiniband_verbs/" + verbs);
        if (adapter.name.empty()) continue;
        if (auto device = host.link_target("/sys/class/infiniband/" + adapter.name + "/device"))
            adapter.bus = normal_bus(last_part(*device));
        adapter.open = host.access(adapter.node()) == Access::allowed;
        out.push_back(adapter);
    }
    for (const std::string& umad : host.list("/sys/class/infiniband_mad"))
        if (umad.starts_with("umad"))
            for (Adapter& adapter : out)
                if (adapter.name == ibdev_of(host, "/sys/class/infiniband_mad/" + umad)) adapter.umads.push_back(umad);
    std::sort(out.begin(), out.end(), [](const Adapter& one, const Adapter& other) {
        return std::tie(one.bus, one.name) < std::tie(other.bus, other.name);
    });
    // Numbered from 0; to look for all of them would cost each start of a node without any.
    for (unsigned i = 0; i < cxi_limit && host.device(cat("/dev/cxi", i)); ++i) {
        Adapter adapter;
        adapter.name = cat("cxi", i);
        if (auto device = host.link_target(cat("/sys/class/cxi/cxi", i, "/device")))
            adapter.bus = normal_bus(last_part(*device));
        adapter.open = host.access(adapter.node()) == Access::allowed;
        out.push_back(adapter);
    }
    return out;
}

std::string driver_of(const Host& host, const Adapter& adapter) {
    return last_part(host.link_target("/sys/class/infiniband/" + adapter.name + "/device/driver").value_or(""));
}

plan::ContainerEdits rdma_hook(const Host& host, const Rootfs& image, const RdmaRequest& request) {
    plan::ContainerEdits out;
    if (!request.wanted) return out;
    auto node = [&](const std::string& path, const std::string& reason) {
        return add_open_node(out.edits, host, path, by_rdma, reason);
    };
    std::vector<Adapter> chosen = chosen_adapters(host, find_adapters(host), request);
    if (chosen.empty()) return out;
    for (const Adapter& adapter : chosen) {
        node(adapter.node(), "adapter " + adapter.name);
        for (const std::string& umad : adapter.umads)
            node("/dev/infiniband/" + umad, "management of adapter " + adapter.name);
    }
    if (std::ranges::any_of(chosen, [](const Adapter& one) { return !one.verbs.empty(); }))
        node("/dev/infiniband/rdma_cm", "connections by RDMA");
    for (const char* path : {"/dev/knem", "/dev/xpmem"}) node(path, "copies between processes of this node");
    add_topology(out, host, request);
    out.environment = request.environment;
    auto is_efa = [&](const Adapter& one) { return driver_of(host, one) == "efa"; };
    if (request.userspace) add_userspace(out, host, image, std::any_of(chosen.begin(), chosen.end(), is_efa));
    if ((request.named || request.tells) && request.locked_memory && *request.locked_memory <= little_memory)
        out.warnings.push_back(cat("a task may lock only ", *request.locked_memory,
                                   " bytes of memory, too little for RDMA: raise the limit where slurmd runs "
                                   "(LimitMEMLOCK=infinity) and see --propagate"));
    return out;
}

namespace {

const char* how_to_open(const std::vector<Adapter>& adapters) {
    bool verbs = std::ranges::any_of(adapters, [](const Adapter& adapter) { return !adapter.verbs.empty(); });
    return verbs ? "give users the nodes below /dev/infiniband (udev's rules of rdma-core: mode 0666)"
                 : "give users the nodes /dev/cxi* (udev's rules of Slingshot's driver: mode 0666)";
}

bool some_open(const std::vector<Adapter>& adapters) {
    return std::ranges::any_of(adapters, [](const Adapter& adapter) { return adapter.open; });
}

/// "4 RDMA adapters"
std::string count_of(const std::vector<Adapter>& adapters) {
    return cat(adapters.size(), adapters.size() == 1 ? " RDMA adapter" : " RDMA adapters");
}

}  // namespace

std::string missing_adapters(plan::RdmaMode mode, const std::vector<Adapter>& adapters, const RdmaRequest& request,
                             const std::vector<std::string>& job) {
    if (adapters.empty() || (request.wanted && some_open(adapters))) return {};
    std::string start = cat("the container has none of the ", count_of(adapters),
                            " of this node, and MPI and NCCL use TCP between nodes: ");
    if (mode == plan::RdmaMode::off) return start + "devices.rdma of berth.conf is off";
    if (request.wanted) return cat(start, "this step may open none of them; ", how_to_open(adapters));
    // Who says none is told nothing.
    if (variable(job, variable_name)) return {};
    return cat(start, "devices.rdma of berth.conf is \"asked\"; set ", variable_name, "=all");
}

DeviceStatus rdma_status(const std::vector<Adapter>& adapters, plan::RdmaMode mode) {
    using Level = DeviceStatus::Level;
    if (adapters.empty()) return {Level::note, "RDMA", "no adapters"};
    DeviceStatus out;
    out.subject = "RDMA";
    out.pins_memory = "RDMA adapters";
    auto open = std::ranges::count_if(adapters, [](const Adapter& adapter) { return adapter.open; });
    if (mode == plan::RdmaMode::off) {
        out = {Level::failure, "RDMA", cat(count_of(adapters), ", and containers get none (devices.rdma is off)"),
               "set devices.rdma = \"auto\" in berth.conf; devices.disabled = \"rdma\" says that none are wanted"};
    } else if (open == 0) {
        out = {Level::failure, "RDMA", cat(count_of(adapters), ", of which this user may open none"),
               how_to_open(adapters)};
    } else if (mode == plan::RdmaMode::asked) {
        out.level = Level::warning;
        out.text = cat(count_of(adapters), ", for containers that ask by ", variable_name, " (devices.rdma)");
        out.advice = "devices.rdma = \"auto\" in berth.conf gives them to all, as Enroot does";
    } else {
        out.level = Level::ok;
        bool all = static_cast<size_t>(open) == adapters.size();
        out.text = cat(count_of(adapters), all ? "" : cat(", of which this user may open ", open));
    }
    return out;
}

namespace {

/// One line for a step of several nodes, from its first one.
bool tells_for_the_step(const std::vector<std::string>& job) {
    const char *nodes = variable(job, "SLURM_STEP_NUM_NODES"), *number = variable(job, "SLURM_NODEID");
    uint64_t count = 0;
    return nodes && number && parse_number(nodes, UINT32_MAX, count) && count > 1 && number == std::string_view("0");
}

plan::ContainerEdits make(const DeviceRequest& asked) {
    plan::RdmaMode mode = asked.site.devices.rdma;
    RdmaRequest request = rdma_request(mode, asked.image_variables, asked.job);
    request.userspace = asked.site.devices.rdma_userspace;
    request.tells = tells_for_the_step(asked.job);
    // What Slurm does not carry over is as where slurmd runs, and so as here.
    if (!request.locked_memory) request.locked_memory = asked.host.lockable_memory();
    plan::ContainerEdits out = rdma_hook(asked.host, asked.image, request);
    if (!request.tells) return out;
    if (std::string line = missing_adapters(mode, find_adapters(asked.host), request, asked.job); !line.empty())
        out.warnings.push_back(line);
    return out;
}

DeviceStatus status(const Host& host, const plan::Site& site) {
    return rdma_status(find_adapters(host), site.devices.rdma);
}

DeviceList list(const DeviceListRequest& asked) {
    return list_rdma(asked.host, asked.site.devices.rdma, asked.job);
}

bool grants(const Host& host, const plan::Site& site, const std::vector<std::string>&) {
    return site.devices.rdma != plan::RdmaMode::off && !find_adapters(host).empty();
}

}  // namespace

extern const DeviceMaker rdma_maker{
    .vendor = "rdma", .make = make, .status = status, .list = list, .grants = grants};

}  // namespace berth::hooks
