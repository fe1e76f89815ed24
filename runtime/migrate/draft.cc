#include "runtime/migrate/draft.hh"

#include <algorithm>
#include <set>

#include "runtime/base/json_text.hh"
#include "runtime/base/text.hh"
#include "runtime/config/site_file.hh"

namespace berth::migrate {

namespace {

constexpr size_t longest = 4096;  // of a text in a line for people

/// "store" and "path" of "store.path".
std::pair<std::string, std::string> parts_of(const std::string& key) {
    size_t dot = key.rfind('.');
    return {key.substr(0, dot), key.substr(dot + 1)};
}

std::string item_form(const std::string& item) {
    std::string form = text_form(item);
    return form.empty() ? form : cat("[", form, "]");
}

std::string words_form(const std::vector<std::string>& words) {
    std::string out;
    for (const std::string& word : words) out += cat(out.empty() ? "" : " ", word);
    return text_form(out);
}

/// A long list has a line for each item.
std::string as_lines(const std::string& name, const std::vector<std::string>& items) {
    std::string out = name + " = [\n";
    for (const std::string& item : items) out += cat("    ", text_form(item), ",\n");
    return out + "]\n";
}

}  // namespace

std::string Place::text() const {
    return line == 0 ? printable(file, longest) : cat(printable(file, longest), ":", line);
}

std::string Finding::text() const {
    const char* word = fate == Fate::kept ? "kept      " : fate == Fate::changed ? "changes   " : "no place  ";
    std::string out = cat(word, place.text(), ": ", printable(place.what, longest));
    if (!became.empty()) out += " -> " + became;
    if (!why.empty()) out += ": " + why;
    return out;
}

Answer site_reader(const std::string& key, const std::string& value) {
    static const std::set<std::string> known = [] {
        std::set<std::string> out;
        for (const plan::ShownKey& one : plan::shown_site({})) out.insert(one.key);
        return out;
    }();
    // Tables of registries have names of their own.
    if (!known.contains(key) && !key.starts_with("registry.\"")) return Answer::no_key;
    auto [section, name] = parts_of(key);
    std::string text = cat("[", section, "]\n", name, " = ", value, "\n");
    return plan::site_mistakes(text, "berth.conf").empty() ? Answer::taken : Answer::refused;
}

std::string text_form(const std::string& text) {
    return printable(text, text.size() + 1) == text ? json_text(text) : std::string();
}

std::string flag_form(bool flag) { return flag ? "true" : "false"; }

Answer Draft::set(const std::string& key, const std::vector<std::string>& values, const Place& place) {
    Answer answer = Answer::refused;
    for (const std::string& value : values) {
        answer = value.empty() ? Answer::refused : reader_(key, value);
        if (answer != Answer::taken) continue;
        Entry* old = find(key);
        if (old == nullptr)
            entries_.push_back({key, value, Kind::value, {}, {place}});
        else if (old->value == value)
            old->places.push_back(place);
        else
            answer = Answer::other;
        break;
    }
    return answer;
}

Answer Draft::add_item(const std::string& key, const std::string& item, const Place& place) {
    return add(Kind::items, key, item, place);
}

Answer Draft::add_word(const std::string& key, const std::string& word, const Place& place) {
    return add(Kind::words, key, word, place);
}

Answer Draft::add(Kind kind, const std::string& key, const std::string& item, const Place& place) {
    Entry* old = find(key);
    std::vector<std::string> words = kind == Kind::words && old != nullptr ? old->items : std::vector<std::string>();
    if (std::find(words.begin(), words.end(), item) == words.end()) words.push_back(item);
    std::string value = kind == Kind::items ? item_form(item) : words_form(words);
    Answer answer = value.empty() ? Answer::refused : reader_(key, value);
    if (answer != Answer::taken) return answer;
    if (old == nullptr) old = &entries_.emplace_back(Entry{key, {}, kind, {}, {}});
    if (kind == Kind::items)
        old->items.push_back(item);
    else
        old->items = std::move(words);
    old->value = std::move(value);
    old->places.push_back(place);
    return answer;
}

Draft::Entry* Draft::find(const std::string& key) {
    auto at = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& one) { return one.key == key; });
    return at == entries_.end() ? nullptr : &*at;
}

const Draft::Entry* Draft::find(const std::string& key) const { return const_cast<Draft*>(this)->find(key); }

std::string Draft::shown(const std::string& key) const {
    const Entry* entry = find(key);
    return entry == nullptr ? std::string() : cat(key, " = ", entry->value);
}

std::string Draft::origin(const std::string& key) const {
    const Entry* entry = find(key);
    return entry == nullptr ? std::string() : entry->places.front().text();
}

std::string Draft::text() const {
    std::vector<std::string> sections;
    for (const Entry& entry : entries_)
        if (std::string section = parts_of(entry.key).first;
            std::find(sections.begin(), sections.end(), section) == sections.end())
            sections.push_back(section);
    std::string out;
    for (const std::string& section : sections) {
        out += cat("\n[", section, "]\n");
        for (const Entry& entry : entries_) {
            auto [of, name] = parts_of(entry.key);
            if (of != section) continue;
            for (const Place& place : entry.places)
                out += cat("# ", place.text(), ": ", printable(place.what, longest), "\n");
            out += entry.kind == Kind::items ? as_lines(name, entry.items) : cat(name, " = ", entry.value, "\n");
        }
    }
    return out;
}

}  // namespace berth::migrate
