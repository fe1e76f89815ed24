// The numbers of docs/formats.md are those of the code.
#include <fstream>
#include <map>

#include "runtime/base/chunk_map.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/artifact.hh"
#include "runtime/oci/remainder/remainder.hh"
#include "runtime/pull/nodes/chunks/growing_layer.hh"
#include "runtime/pull/nodes/protocol/chunk_head.hh"
#include "runtime/pull/nodes/protocol/messages.hh"
#include "runtime/squash/index/block_sums.hh"
#include "runtime/squash/index/index_format.hh"
#include "runtime/squash/read/prefetch_list.hh"
#include "runtime/telemetry/counters.hh"
#include "tests/catch.hh"

using namespace berth;

namespace {

std::string page() {
    std::ifstream file("docs/formats.md");
    return {std::istreambuf_iterator<char>(file), {}};
}

/// {name in the code: value} of the page's last table.
std::map<std::string, std::string> numbers_of(const std::string& text) {
    std::map<std::string, std::string> out;
    for (const std::string& line : split(text.substr(text.find("\n## Numbers\n")), '\n')) {
        std::vector<std::string> cells = split(line, '|');
        if (cells.size() == 5 && cells[3].starts_with(" `")) out[std::string(trimmed(cells[3]))] = trimmed(cells[2]);
    }
    return out;
}

/// {name: value} as the compiler has them.
#define BERTH_NUMBER(name) {"`" #name "`", std::to_string(uint64_t{name})}
std::map<std::string, std::string> numbers_in_code() {
    return {
        BERTH_NUMBER(squash::format::version),
        BERTH_NUMBER(squash::format::section_count),
        BERTH_NUMBER(sizeof(squash::format::Header)),
        BERTH_NUMBER(sizeof(squash::format::InodeRecord)),
        BERTH_NUMBER(squash::format::page_size),
        BERTH_NUMBER(squash::format::sum_interval),
        BERTH_NUMBER(sizeof(squash::BlockSum)),
        BERTH_NUMBER(squash::prefetch_extents),
        BERTH_NUMBER(squash::prefetch_names),
        BERTH_NUMBER(pull::nodes::release),
        BERTH_NUMBER(pull::nodes::line_limit),
        BERTH_NUMBER(pull::nodes::layer_limit),
        BERTH_NUMBER(pull::nodes::stripe_count),
        BERTH_NUMBER(pull::nodes::chunk_size),
        BERTH_NUMBER(pull::nodes::ChunkHead::wire_size),
        BERTH_NUMBER(ChunkMap::chunk_size),
        BERTH_NUMBER(oci::remainder_path_limit),
    };
}
#undef BERTH_NUMBER

}  // namespace

TEST_CASE("each number of docs/formats.md is the code's, and each is there", "[formats]") {
    CHECK(numbers_of(page()) == numbers_in_code());
}

TEST_CASE("docs/formats.md has each media type, message, cause and kind that the code has", "[formats]") {
    using namespace pull::nodes;
    std::string text = page();
    std::vector<std::string> words = {oci::artifact_type,      oci::published_layer_type, oci::remainder_type,
                                      oci::index_type,         oci::sums_type,            oci::profile_type,
                                      oci::diff_id_annotation, std::string(squash::format::magic, 8)};
    for (size_t i = 0; i < plan::cause_count; ++i) words.emplace_back(name_of(static_cast<plan::Cause>(i)));
    for (size_t i = 0; i < plan::image_from_count; ++i) words.emplace_back(name_of(static_cast<plan::ImageFrom>(i)));
    for (const std::string& word : words) {
        INFO(word);
        CHECK(text.find(cat("`", word, "`")) != text.npos);
    }
    const std::vector<pull::nodes::Message> kinds{Hello{}, Have{}, Complaint{}, Progress{}, Documents{}, Done{},
                                                  Alone{}, Finished{}, Plan{}, NewRole{}, Gone{}, StepStatus{}};
    CHECK(kinds.size() == std::variant_size_v<pull::nodes::Message>);
    std::vector<std::string> messages;
    for (const auto& kind : kinds) messages.push_back(words_of(kind));
    for (const std::string& message : messages) {
        std::string word = message.substr(0, message.find(' '));
        INFO(word);
        CHECK((text.find(cat("| `", word, " ")) != text.npos || text.find(cat("| `", word, "`")) != text.npos));
    }
    std::string counters = plan::counters_text({});
    CHECK(text.find(cat("`", counters.substr(0, counters.find('\n')), "`")) != text.npos);
    CHECK(counters.size() == plan::counters_size());
}
