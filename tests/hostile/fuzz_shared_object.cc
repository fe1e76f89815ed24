// A shared library of an image, of which the node's MPI takes the place.
#include "hooks/mpi/mpi.hh"
#include "tests/hostile/target.hh"

namespace {

using namespace berth;

void run(std::string_view input) {
    size_t asked = 0;
    hooks::ReadPart read = [&](uint64_t offset, size_t size) {
        asked += size;
        return offset < input.size() ? std::string(input.substr(offset, size)) : std::string();
    };
    auto object = hooks::read_shared_object(read);
    std::set<std::string> functions = hooks::defined_symbols(read, hooks::is_mpi_function);
    auto is_part = [&](const std::string& text) { return input.find(text) != input.npos; };
    for (const std::string& name : functions)
        hostile::must(hooks::is_mpi_function(name) && is_part(name), "a function that is not in the file");
    if (object) {
        hostile::must(is_part(object->soname), "a name that is not in the file");
        for (const std::string& name : object->needed) hostile::must(is_part(name), "a need that is not in the file");
    }
    hostile::must(asked <= 128 << 20, "more is read than a few tables");
}

const hostile::Registration registration("shared_object", run);

}  // namespace
