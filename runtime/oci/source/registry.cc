#include "runtime/oci/source/source.hh"

#include "runtime/base/text.hh"

namespace berth::oci {

namespace {

class RegistrySource : public Source {
  public:
    RegistrySource(Registry registry, std::string asked) : registry_(std::move(registry)), asked_(std::move(asked)) {}

    std::optional<Resolution> resolve() override { return registry_.head_manifest(asked_); }
    Document manifest(const std::optional<Digest>& digest) override {
        return registry_.get_manifest(digest ? digest->text() : asked_);
    }
    std::string blob(const Descriptor& blob) override { return registry_.get_blob(blob); }
    void stream(const Descriptor& blob, const Sink& sink) override { registry_.stream_blob(blob, sink); }
    void read_range(const Descriptor& blob, uint64_t from, uint64_t size, const Sink& sink) override {
        registry_.read_range(blob, from, size, sink);
    }
    std::string pass_over_senders() override { return registry_.pass_over_senders(); }
    std::unique_ptr<Source> sibling() const override {
        return std::make_unique<RegistrySource>(registry_.sibling(), asked_);
    }

  private:
    Registry registry_;
    std::string asked_;  ///< tag or digest
};

}  // namespace

void Source::read_range(const Descriptor& blob, uint64_t, uint64_t, const Sink&) {
    throw NoRanges(cat("reading a part of ", blob.digest, ": its source sends whole blobs alone"));
}

std::unique_ptr<Source> make_registry_source(const plan::Reference& reference, const RegistryOptions& options) {
    return std::make_unique<RegistrySource>(Registry(reference, options),
                                            reference.digest ? reference.digest->text() : reference.tag);
}

}  // namespace berth::oci
