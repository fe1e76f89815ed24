// A node with a site file of the test's own, for ordinary users too: the test user becomes root of a user namespace,
// where his files are root's, and gets directories of his own in place of the node's.
#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/kernel/named_support.hh"

namespace berth::kernel_test {

struct SiteScene : ShellScene {
    /// Programs in /etc/berth/hooks.d, by name: what follows "#!/bin/sh".
    std::vector<std::pair<std::string, std::string>> hooks;
    /// Done as root of the user namespace, before the program.
    std::function<void()> prepare = {};

    /// Runs the program `berth` with `variables` (NAME=VALUE) beside the scene's own, where berth.conf is `site_text`:
    /// what it prints, errors too, and "|CODE".
    Outcome berth(const std::string& site_text, const std::vector<std::string>& arguments,
                  const std::vector<std::string>& variables = {}) const;

    /// The same for a script of bash in a container.
    Outcome shell(const std::string& site_text, const std::string& script,
                  const std::vector<std::string>& variables = {}, const std::vector<std::string>& options = {}) const;

    /// The command line of berth(), for those who wait themselves.
    std::vector<std::string> shell_words(const std::vector<std::string>& arguments,
                                         const std::vector<std::string>& variables) const;

    /// In `prepare`: makes `path` a directory that can be added to, with what is in it on the node.
    void open_up(const std::string& path) const;

  private:
    void become_site(const std::string& site_text) const;
};

}  // namespace berth::kernel_test
