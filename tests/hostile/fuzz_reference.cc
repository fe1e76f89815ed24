// Image references, as users write them and as archives and daemons name their images.
#include <stdexcept>

#include "runtime/request/reference.hh"
#include "tests/hostile/target.hh"

namespace {

void run(std::string_view input) {
    using namespace berth::plan;
    berth::hostile::refusing([&] {
        Reference reference = parse_reference(input);
        if (reference.kind != Reference::Kind::registry) return;
        if (reference.digest && !berth::Digest::parse(reference.digest->text()))
            throw std::logic_error("a digest that is none");
        // What is shown and stored has to be the same image again.
        Reference again = parse_reference(reference.text());
        if (again.registry != reference.registry || again.name != reference.name || again.tag != reference.tag ||
            again.digest != reference.digest)
            throw std::logic_error("the text of a reference is another reference");
    });
    looks_like_image_file(input);
    Reference file;
    file.kind = Reference::Kind::path;
    file.path = input;
    with_absolute_path(file, "/home/user", "/home/user");
}

const berth::hostile::Registration registration("reference", run);

}  // namespace
