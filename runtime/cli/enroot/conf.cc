#include "runtime/cli/enroot/conf.hh"

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/host/run_program.hh"

namespace berth::cli {

namespace {

constexpr std::chrono::seconds patience{60};

/// Prints "KIND\0TEXT\0" for each thing that the script $1 says. Its own output goes to standard error.
constexpr const char* questions = R"(set -euo pipefail
exec 3>&1 1>&2
script=$1
shift
directive='^#[[:space:]]*((ENROOT|NVIDIA|MELLANOX)_[A-Z_]+)[[:space:]=]+(.*)$'
while IFS= read -r line || [[ -n $line ]]; do
  [[ $line =~ $directive ]] || continue
  name=${BASH_REMATCH[1]} value=${BASH_REMATCH[3]//\"/}
  eval "value=\"$value\""
  export "$name=$value"
  printf 'directive\0%s=%s\0' "$name" "$value" >&3
done < "$script"
source "$script"
for part in environ mounts; do
  declare -F "$part" > /dev/null || continue
  text=$("$part")
  printf '%s\0%s\0' "$part" "$text" >&3
done
if declare -F rc > /dev/null; then
  text=$(declare -f rc | sed '1,2d;$d')
  printf 'rc\0%s\0' "$text" >&3
fi
if declare -F hooks > /dev/null; then printf 'hooks\0\0' >&3; fi
)";

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> out;
    for (const std::string& line : split(text, '\n'))
        if (!trimmed(line).empty()) out.push_back(line);
    return out;
}

}  // namespace

ScriptConfig read_script(const std::string& path, const std::vector<std::string>& arguments) {
    std::string what = cat("running the configuration script ", printable(path, 4096));
    std::vector<std::string> words{"-c", questions, "bash", path};
    words.insert(words.end(), arguments.begin(), arguments.end());
    ProgramAnswer answer = run_program("/bin/bash", words, "", patience);
    if (answer.code != 0)
        throw Error(cat(what, ": it ended with ", answer.code, answer.complaint.empty() ? "" : ": ",
                        printable(answer.complaint, 1024)),
                    1);
    ScriptConfig out;
    std::vector<std::string> said = split(answer.output, '\0');
    for (size_t at = 0; at + 1 < said.size(); at += 2) {
        const std::string &kind = said[at], &text = said[at + 1];
        if (kind == "directive") out.directives.push_back(text);
        if (kind == "environ") out.environment = lines_of(text);
        if (kind == "mounts") out.mounts = lines_of(text);
        if (kind == "rc") out.rc = text;
        if (kind == "hooks") out.has_hooks = true;
    }
    return out;
}

}  // namespace berth::cli
