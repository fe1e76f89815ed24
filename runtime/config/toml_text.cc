#include "runtime/config/toml_text.hh"

#include <algorithm>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::plan {

namespace {

/// Walks over the text outside of its quotes and comments.
class Scanner {
  public:
    Scanner(std::string_view text, const std::string& name) : text_(text), name_(name) {}

    void run() {
        while (at_ < text_.size()) {
            char c = text_[at_];
            if (!is_ascii(text_.substr(at_, 1))) refuse();
            if (c == '#')
                at_ = std::min(text_.find('\n', at_), text_.size());
            else if (c == '"' || c == '\'')
                skip_quoted(c);
            else
                ++at_;
        }
    }

  private:
    /// To the end of a text in quotes, single or triple ones.
    void skip_quoted(char quote) {
        std::string triple(3, quote);
        std::string_view end =
            text_.substr(at_).starts_with(triple) ? std::string_view(triple) : std::string_view(triple).substr(0, 1);
        at_ += end.size();
        while (at_ < text_.size() && !text_.substr(at_).starts_with(end))
            at_ += quote == '"' && text_[at_] == '\\' ? 2 : 1;
        at_ = std::min(at_ + end.size(), text_.size());
    }

    [[noreturn]] void refuse() const {
        auto line = 1 + std::count(text_.begin(), text_.begin() + static_cast<ptrdiff_t>(at_), '\n');
        size_t start = at_ == 0 ? text_.npos : text_.rfind('\n', at_ - 1);
        throw Error(cat(name_, ":", line, ":", start == text_.npos ? at_ + 1 : at_ - start,
                        ": a character that may stand in quotes only"));
    }

    std::string_view text_;
    const std::string& name_;
    size_t at_ = 0;
};

}  // namespace

bool is_ascii(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

std::string with_ascii_only(std::string_view text) {
    std::string out(text);
    std::replace_if(
        out.begin(), out.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x80; }, 'x');
    return out;
}

void check_quoted(std::string_view text, const std::string& name) {
    Scanner(text, name).run();
}

}  // namespace berth::plan
