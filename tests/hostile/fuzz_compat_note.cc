// The note in libcuda of an image's compatibility libraries. The first line of an input is the version in the file's
// name, the second the node's driver; the rest is the file.
#include "hooks/nvidia/nvidia.hh"
#include "runtime/base/text.hh"
#include "tests/hostile/target.hh"

namespace {

using namespace berth;

/// An image with this one library, which counts what is read of it.
class Image : public hooks::Rootfs {
  public:
    Image(std::string_view version, std::string_view library)
        : name_(cat("libcuda.so.", version)), library_(library) {}

    bool exists(const std::string& path) const override { return path == folder; }
    std::optional<std::string> resolved(const std::string& path) const override { return path; }
    std::vector<std::string> list(const std::string& path) const override {
        return path == folder ? std::vector{name_} : std::vector<std::string>();
    }
    std::string read(const std::string& path, uint64_t offset, size_t size) const override {
        hostile::must(path == cat(folder, '/', name_), "another file is read");
        asked_ += size;
        return offset < library_.size() ? std::string(library_.substr(offset, size)) : std::string();
    }
    size_t asked() const { return asked_; }

    static constexpr const char* folder = "/usr/local/cuda/compat";

  private:
    std::string name_;
    std::string_view library_;
    mutable size_t asked_ = 0;
};

void run(std::string_view input) {
    std::string_view version = hostile::take_line(input);
    std::string driver(hostile::take_line(input));
    Image image(version, input);
    hostile::refusing([&] {
        std::string found = hooks::compat_folder(image, driver);
        hostile::must(found.empty() || found == Image::folder, "another folder is found");
    });
    hostile::must(image.asked() <= 256 << 10, "more is read than a few tables");
}

const hostile::Registration registration("compat_note", run);

}  // namespace
