// /etc/ld.so.cache of nodes and images. What is read is written again, since containers get what was added to it.
#include "runtime/host/loader_cache.hh"
#include "tests/hostile/target.hh"

namespace {

using namespace berth;
using hostile::must;

void run_cache(std::string_view input) {
    LoaderCache cache = parse_loader_cache(input, "ld.so.cache");
    std::string bytes = loader_cache_bytes(cache);
    LoaderCache again = parse_loader_cache(bytes, "again");
    must(again.libraries.size() == cache.libraries.size() && again.hwcaps == cache.hwcaps,
         "a cache that is written is another one");
    must(loader_cache_bytes(again) == bytes, "a cache that is written twice changes");
    plan::CachedLibrary added{.flags = loader_flags(), .name = "libcuda.so.1", .path = "/added"};
    add_libraries(cache, {added});
    size_t found = 0;
    for (const plan::CachedLibrary& library :
         parse_loader_cache(loader_cache_bytes(cache), "more").libraries)
        if (library.name == added.name && library.flags == added.flags) found += library.path == added.path ? 1 : 2;
    must(found == 1, "a library that is added is not the one of its name");
}

/// The loader searches by halves, so that the order must be one: of three names.
void run_order(std::string_view input) {
    std::string_view names[] = {hostile::take_line(input), hostile::take_line(input), hostile::take_line(input)};
    auto order = [&](size_t one, size_t other) { return compare_library_names(names[one], names[other]); };
    constexpr size_t turns[][3] = {{0, 1, 2}, {1, 2, 0}, {2, 0, 1}};
    for (const auto& [one, two, three] : turns) {
        must(order(one, two) == -order(two, one), "an order has two directions");
        must(order(one, two) > 0 || order(two, three) > 0 || order(one, three) <= 0, "an order goes in a circle");
    }
}

void run(std::string_view input) {
    hostile::refusing([&] { run_cache(input); });
    run_order(input);
}

const hostile::Registration registration("loader_cache", run);

}  // namespace
