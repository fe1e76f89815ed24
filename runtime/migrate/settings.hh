// Settings of enroot.conf and of Pyxis' line in plugstack.conf, and what becomes of each: a table of both. Pure.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "runtime/migrate/draft.hh"
#include "runtime/migrate/value.hh"

namespace berth::migrate {

struct Row;

/// A setting with its value, read as its file has it.
struct Found {
    std::string name;
    Value value;
    Place place;
    bool by_default = false;  ///< nobody has written it: it is Enroot's default
};

/// Decides about one setting: sets keys and reports it.
using Decision = void(Draft& draft, const Row& row, const Found& found);

struct Row {
    std::string_view name;  ///< a `*` at its end stands for any end
    Decision* decide;
    std::string_view key;     ///< of berth.conf, which may not have it yet; empty: it needs none
    std::string_view change;  ///< how things differ with the key, or without need of one; empty: they do not
    std::string_view remedy;  ///< what to do where berth.conf has no place for it
};

/// Reports `found` by what the key of `row` answered.
void report_answer(Draft& draft, const Row& row, const Found& found, Answer answer);

/// Settings of enroot.conf; a name that nobody knows is reported too.
void decide_setting(Draft& draft, const Found& found);

/// Settings that matter with Enroot's default as well, and that `names` does not have.
void decide_defaults(Draft& draft, const std::string& file, const std::vector<std::string>& names);

/// A word behind Pyxis' plugin in plugstack.conf.
void decide_word(Draft& draft, const Found& found);

/// Values that several files can have, see folders.cc.
Decision set_variable;  ///< a variable of all containers, in which signs of paths can be
Decision set_rdma;      ///< MELLANOX_VISIBLE_DEVICES

}  // namespace berth::migrate
