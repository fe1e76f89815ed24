// A berth.conf that comes to be setting by setting, and what became of each setting that was looked at. Pure.
#pragma once
#include <functional>
#include <string>
#include <vector>

namespace berth::migrate {

/// Where a setting stands, and how.
struct Place {
    std::string file;
    size_t line = 0;   ///< 0: the whole file, or nothing that is written
    std::string what;  ///< as people would write it
    std::string text() const;  ///< "FILE:LINE"
};

/// unplaced: berth.conf cannot say it, so that somebody has to do something.
enum class Fate { kept, changed, unplaced };

/// What became of a setting.
struct Finding {
    Fate fate;
    Place place;
    std::string became;  ///< keys of berth.conf with their values; may be empty
    std::string why;     ///< what changes, or what to do; may be empty
    /// One printable line: "kept      FILE:LINE: WHAT -> KEY = VALUE: WHY".
    std::string text() const;
};

/// A program for hooks.folder.
struct Hook {
    std::string name, text;
};

/// What berth.conf says to a value. other: the draft has another value already. no_key: there is no such key.
enum class Answer { taken, other, refused, no_key };

/// Judges a value, written as TOML.
using Reader = std::function<Answer(const std::string& key, const std::string& value)>;

/// The Reader of this program's own berth.conf.
Answer site_reader(const std::string& key, const std::string& value);

/// Values as berth.conf has them. Empty, which no key takes, for a text that TOML cannot hold.
std::string text_form(const std::string& text);
std::string flag_form(bool flag);

class Draft {
  public:
    explicit Draft(Reader reader) : reader_(std::move(reader)) {}

    /// Sets `key` to the first of `values` that it takes.
    Answer set(const std::string& key, const std::vector<std::string>& values, const Place& place);
    /// Adds `item` to a key that is a list of texts.
    Answer add_item(const std::string& key, const std::string& item, const Place& place);
    /// Adds `word` to a key whose text has words with blanks between them.
    Answer add_word(const std::string& key, const std::string& word, const Place& place);

    /// Adds a program for hooks.folder.
    void add_hook(const std::string& name, const std::string& text) { hooks_.push_back({name, text}); }
    const std::vector<Hook>& hooks() const { return hooks_; }

    void report(Finding finding) { findings_.push_back(std::move(finding)); }

    /// "KEY = VALUE" of what the draft has, of a list the item that was added last; empty when it has no such key.
    std::string shown(const std::string& key) const;
    /// Where its value comes from first.
    std::string origin(const std::string& key) const;

    const std::vector<Finding>& findings() const { return findings_; }
    /// The file, without a head.
    std::string text() const;

  private:
    enum class Kind { value, items, words };
    struct Entry {
        std::string key, value;  ///< of a list: its last item
        Kind kind = Kind::value;
        std::vector<std::string> items;
        std::vector<Place> places;
    };
    Entry* find(const std::string& key);
    const Entry* find(const std::string& key) const;
    Answer add(Kind kind, const std::string& key, const std::string& item, const Place& place);

    Reader reader_;
    std::vector<Entry> entries_;
    std::vector<Hook> hooks_;
    std::vector<Finding> findings_;
};

}  // namespace berth::migrate
