#include "hooks/cdi_files/yaml.hh"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::hooks {

using nlohmann::json;

namespace {

constexpr size_t node_limit = 1'000'000, depth_limit = 64;

json scalar_of(const std::string& tag, const std::string& text) {
    // "?" is a plain word; what is in quotes is a text whatever it looks like.
    if (tag != "?") return text;
    uint64_t number = 0;
    if (parse_number(text, INT64_MAX, number)) return number;
    if (text == "true" || text == "false") return text == "true";
    if (text == "null" || text == "~" || text.empty()) return nullptr;
    return text;
}

/// Builds the value from the parser's events: no tree that aliases could make grow.
class Builder : public YAML::EventHandler {
  public:
    explicit Builder(const std::string& what) : what_(what) {}

    json result() { return std::move(root_); }

    void OnDocumentStart(const YAML::Mark&) override {}
    void OnDocumentEnd() override {}
    void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { add(mark, nullptr); }
    void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { refuse(mark, "aliases are not taken"); }
    void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t, const std::string& value) override {
        if (!stack_.empty() && stack_.back().value.is_object() && !stack_.back().has_key) {
            if (stack_.back().value.contains(value)) refuse(mark, "a key is there twice");
            stack_.back().key = value;
            stack_.back().has_key = true;
            return;
        }
        add(mark, scalar_of(tag, value));
    }
    void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                         YAML::EmitterStyle::value) override {
        open(mark, json::array());
    }
    void OnSequenceEnd() override { close(); }
    void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
        open(mark, json::object());
    }
    void OnMapEnd() override { close(); }

  private:
    struct Level {
        json value;
        std::string key;
        bool has_key = false;
        YAML::Mark mark;
    };

    [[noreturn]] void refuse(const YAML::Mark& mark, const char* why) const {
        throw Error(cat(what_, ":", mark.line + 1, ": ", why));
    }

    void open(const YAML::Mark& mark, json value) {
        if (!stack_.empty() && stack_.back().value.is_object() && !stack_.back().has_key)
            refuse(mark, "a key is no text");
        if (stack_.size() >= depth_limit) refuse(mark, "it is nested too deep");
        stack_.push_back({std::move(value), {}, false, mark});
    }

    void close() {
        Level done = std::move(stack_.back());
        stack_.pop_back();
        add(done.mark, std::move(done.value));
    }

    void add(const YAML::Mark& mark, json value) {
        if (++nodes_ > node_limit) refuse(mark, "it is too long");
        if (stack_.empty()) {
            root_ = std::move(value);
            return;
        }
        Level& level = stack_.back();
        if (level.value.is_array()) {
            level.value.push_back(std::move(value));
            return;
        }
        if (!level.has_key) refuse(mark, "a key is no text");
        level.value[level.key] = std::move(value);
        level.has_key = false;
    }

    const std::string& what_;
    std::vector<Level> stack_;
    json root_;
    size_t nodes_ = 0;
};

}  // namespace

json json_of_yaml(std::string_view text, const std::string& what) {
    Builder builder(what);
    try {
        std::istringstream input{std::string(text)};
        YAML::Parser parser(input);
        parser.HandleNextDocument(builder);
    } catch (const YAML::Exception& error) {
        throw Error(cat(what, ":", error.mark.line + 1, ": this is no YAML: ", printable(error.msg)));
    }
    return builder.result();
}

}  // namespace berth::hooks
