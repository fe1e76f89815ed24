#include "runtime/apptainer/commands.hh"

#include <string_view>

#include "runtime/base/text.hh"

namespace berth::apptainer {

namespace {

/// In double quotes, so that it puts in variables; $$ stands for a dollar sign.
std::string for_shell(std::string_view text) {
    std::string out = "\"";
    for (size_t i = 0; i < text.size(); ++i) {
        bool dollar = text.substr(i).starts_with("$$");
        if (dollar) ++i;
        if (dollar || text[i] == '"' || text[i] == '`' || text[i] == '\\') out += '\\';
        out += text[i];
    }
    return out + "\"";
}

/// In double quotes, in which all but these means what it means there.
std::string in_double_quotes(std::string_view text) {
    std::string out = "\"";
    for (char letter : text) {
        if (letter == '"') out += '\\';
        out += letter;
    }
    return out + "\"";
}

std::string app_root(const std::string& app) {
    return "/scif/apps/" + app;
}

/// In single quotes.
std::string no_app(const std::string& app, const char* what) {
    return cat("'FATAL:   --app ", app, ": the image has no ", what,
               "; apptainer exec IMAGE ls /scif/apps lists its apps'");
}

/// Sets the variables of SCIF for an app, and reads its own scripts. Its name is checked.
std::string app_environment(const std::string& app) {
    std::string root = app_root(app), data = "/scif/data/" + app, meta = root + "/scif";
    std::string out = cat("[ -d ", root, " ] || { echo ", no_app(app, "app of that name"), " >&2; exit 255; }; ");
    out += cat("export SCIF_APPS=/scif/apps SCIF_DATA=/scif/data SCIF_APPNAME=", app, " SCIF_APPROOT=", root,
               " SCIF_APPMETA=", meta, " SCIF_APPBIN=", root, "/bin SCIF_APPLIB=", root, "/lib SCIF_APPRUN=", meta,
               "/runscript SCIF_APPHELP=", meta, "/runscript.help SCIF_APPLABELS=", meta,
               "/labels.json SCIF_APPENV=", meta, "/env/90-environment.sh SCIF_APPDATA=", data, " SCIF_APPINPUT=", data,
               "/input SCIF_APPOUTPUT=", data, "/output; ");
    out += cat("export PATH=\"", root, "/bin:", root, ":$PATH\"; [ ! -d ", root, "/lib ] || export LD_LIBRARY_PATH=\"",
               root, "/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}\"; ");
    return out + cat("for berth_script in ", meta,
                     "/env/*.sh; do "
                     "[ ! -f \"$berth_script\" ] || . \"$berth_script\"; done; ");
}

}  // namespace

std::vector<std::string> script_reader(const std::vector<std::string>& set, const Variables& variables,
                                       const std::string& app) {
    // Where all apps are is in 94-appsbase.sh.
    std::string script =
        cat("unset LD_LIBRARY_PATH; for berth_script in /.singularity.d/env/*.sh; do "
            "case $berth_script in */01-base.sh|",
            app.empty() ? "*/94-appsbase.sh|" : "",
            "*/95-apps.sh|*/99-base.sh|*/99-runtimevars.sh) continue;; esac; "
            "[ ! -f \"$berth_script\" ] || . \"$berth_script\"; done; ");
    if (!app.empty()) script += app_environment(app);
    script += "unset berth_script; ";
    auto add = [&](const std::vector<std::string>& texts, const auto& written) {
        for (const std::string& text : texts) {
            size_t equals = text.find('=');
            script +=
                cat("export ", text.substr(0, equals), "=", written(std::string_view(text).substr(equals + 1)), "; ");
        }
    };
    add(set, shell_word);
    add(variables.expanded, for_shell);
    add(variables.evaluated, in_double_quotes);
    return {"/bin/sh", "-c", script + "exec \"$@\"", "sh"};
}

std::vector<std::string> app_command(const std::string& app, const char* script,
                                     const std::vector<std::string>& arguments) {
    std::string file = cat(app_root(app), "/scif/", script);
    std::vector<std::string> out{"/bin/sh", "-c",
                                 cat("[ -x ", file, " ] || { echo ", no_app(app, cat(script, " of it").c_str()),
                                     " >&2; exit 255; }; exec ", file, " \"$@\""),
                                 "sh"};
    out.insert(out.end(), arguments.begin(), arguments.end());
    return out;
}

std::string start_script(const std::string& app) {
    return app.empty() ? "/.singularity.d/startscript" : app_root(app) + "/scif/startscript";
}

std::vector<std::string> shell_command(const std::string& asked) {
    if (!asked.empty()) return {asked};
    return {"/bin/sh", "-c",
            "[ ! -x /bin/bash ] || { export SHELL=/bin/bash; exec /bin/bash --norc; }; export SHELL=/bin/sh; "
            "exec /bin/sh"};
}

std::vector<std::string> test_command(const std::vector<std::string>& arguments) {
    std::vector<std::string> out{"/bin/sh", "-c",
                                 "[ ! -x /.singularity.d/test ] || exec /.singularity.d/test \"$@\"; "
                                 "echo 'INFO:    No test script found in container, exiting' >&2",
                                 "sh"};
    out.insert(out.end(), arguments.begin(), arguments.end());
    return out;
}

}  // namespace berth::apptainer
