// Values of enroot.conf, which Enroot has bash evaluate: what they come to without a shell. Pure.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace berth::migrate {

/// Which signs a path can have: those of the user, as in store.path (%U %u %h), or those of the job and the node too
/// (%j %s %n), as in mount.upper and in what every container gets.
enum class Signs { of_user, of_job };

/// A value in pieces, without quotes, escapes and a comment behind it.
struct Value {
    struct Piece {
        std::string text;
        bool expression = false;  ///< for a shell: "$NAME" or "$(command)", however it was written
        bool operator==(const Piece&) const = default;
    };
    std::vector<Piece> pieces;

    /// The first expression that a text has no use for; empty when there is none.
    std::string expression() const;
    /// Nothing when there is an expression.
    std::optional<std::string> text() const;
    /// With the signs of berth.conf's paths for expressions. Nothing when one has no sign; see expression_without_sign.
    std::optional<std::string> path(Signs signs) const;
    std::string expression_without_sign(Signs signs) const;
};

/// As `eval echo VALUE` of bash would read it.
Value parse_value(std::string_view text);

/// With ${NAME} as the only expressions, as in environ.d and mounts.d.
Value parse_plain_value(std::string_view text);

/// Whether Enroot takes the word for no: all other words but the empty one are yes (config::fini of enroot.in).
bool is_no(std::string_view word);

}  // namespace berth::migrate
