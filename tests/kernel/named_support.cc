#include "tests/kernel/named_support.hh"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "runtime/base/sys.hh"
#include "runtime/request/reference.hh"
#include "tests/fixtures/processes.hh"

namespace berth::kernel_test {

pid_t start_waiting_task(const StartedContainer& container) {
    auto&& [joined, its] = sys::make_pipe();
    pid_t task = fixtures::forked();
    if (task == 0) {
        join_container(container);
        its.reset();
        for (;;) ::pause();
    }
    // Until then it is not one of the container's processes, which end with it.
    its.reset();
    char none;
    if (::read(joined.get(), &none, 1) != 0) throw SysError("waiting for the task");
    return task;
}

plan::Request with_root() {
    plan::Request request;
    request.remap_root = true;
    return request;
}

NamedScene::NamedScene(const Fill& more) {
    site.data.path = data;
    folder.file("image.sqfs", "");
    Fd file = sys::open_file(image, O_RDWR);
    squash::LayerWriter writer(file.get(), {});
    fill_sample(writer);
    add_file(writer, "gone", "of the image");
    add_file(writer, "folder/below", "of the image");
    if (more) more(writer);
    writer.finish();
}

UsedContainer NamedScene::use(const std::string& name, const plan::Request& request) const {
    plan::Caller caller = caller_of_this_process();
    caller.cwd = "/";
    ContainerStart start{plan::parse_container_name(name), request, false, caller, {}, site, {}};
    if (!start.request.image) start.request.image = plan::parse_reference(image);
    return use_container(ContainerFolder::open(data), start, {"PATH=/bin"});
}

std::string NamedScene::run(const std::string& name, const std::function<std::string()>& inside,
                            const plan::Request& request) const {
    UsedContainer used = use(name, request);
    std::string out = run_task(used.joined.container, inside);
    leave(std::move(used.connection));
    return out;
}

Outcome NamedScene::outcome(const std::string& name, const std::function<std::string()>& inside,
                            const plan::Request& request) const {
    return as_user([&] { return run(name, inside, request); });
}

std::vector<std::string> NamedScene::command(const std::string& name, const std::vector<std::string>& arguments) const {
    std::string path = std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / name;
    std::vector<std::string> out{"/usr/bin/env",
                                 "-i",
                                 "PATH=/bin:/usr/bin",
                                 "HOME=" + folder / "",
                                 "BERTH_DATA_PATH=" + data,
                                 "BERTH_STORE_PATH=" + folder / "store",
                                 path};
    out.insert(out.end(), arguments.begin(), arguments.end());
    return out;
}

std::string NamedScene::program(const std::string& name, const std::vector<std::string>& arguments) const {
    return as_user([&] {
        ::dup2(STDOUT_FILENO, STDERR_FILENO);
        std::vector<std::string> words{"/bin/sh", "-c", "exec \"$@\" 2>&1", "sh"};
        for (const std::string& word : command(name, arguments)) words.push_back(word);
        return output_of(words);
    }).text;
}

std::string NamedScene::left() const {
    std::string out;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(data))
        out += (out.empty() ? "" : " ") + entry.path().string().substr(data.size() + 1);
    return out;
}

ShellScene::ShellScene()
    : NamedScene([](squash::LayerWriter& writer) {
          for (const char* name : {"lib", "lib64", "sbin"}) writer.add_symlink(name, {}, std::string("usr/") + name);
          writer.add_directory("usr", {});
          add_file(writer, "bin/broken", "#!/no/such/interpreter\n", 0755);
          add_file(writer, "bin/plain", "text\n", 0644);
      }) {}

std::vector<std::string> ShellScene::words(std::vector<std::string> options, const std::string& script) const {
    options.insert(options.begin(), {"run", "--mount", "/usr:/usr:ro"});
    options.insert(options.end(), {image, "/usr/bin/bash", "--norc", "-c", script});
    return command("berth", options);
}

std::string ShellScene::shell(const std::vector<std::string>& options, const std::string& script) const {
    std::vector<std::string> all = words(options, script);
    // program() puts the program itself in front again.
    size_t run = static_cast<size_t>(std::find(all.begin(), all.end(), "run") - all.begin());
    return program("berth", {all.begin() + static_cast<std::ptrdiff_t>(run), all.end()});
}

}  // namespace berth::kernel_test
