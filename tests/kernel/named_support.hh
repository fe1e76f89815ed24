// What the tests of named containers share: an image file, a folder for containers, and their use by the test user.
#pragma once
#include <string>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/container/named/use.hh"
#include "runtime/host/facts.hh"
#include "tests/kernel/support.hh"

namespace berth::kernel_test {

/// A child of the caller that has joined the container, and stays until it is killed.
pid_t start_waiting_task(const StartedContainer& container);

/// Of one who is root inside.
plan::Request with_root();

/// An image file and the place for the containers made of it.
struct NamedScene {
    Folder folder;
    std::string image = folder / "image.sqfs";
    std::string data = folder / "data";
    plan::Site site;

    explicit NamedScene(const Fill& more = {});

    /// In a child that acts as the test user: uses the container `name`.
    UsedContainer use(const std::string& name, const plan::Request& request = {}) const;
    /// Uses it, runs `inside` in a task of it, and leaves it.
    std::string run(const std::string& name, const std::function<std::string()>& inside,
                    const plan::Request& request = {}) const;
    /// As run(), in a child.
    Outcome outcome(const std::string& name, const std::function<std::string()>& inside,
                    const plan::Request& request = {}) const;
    ContainerFolder containers() const { return ContainerFolder::open(data); }
    /// A program of this build, run by the test user with the scene's settings: its output and "|CODE".
    std::string program(const std::string& name, const std::vector<std::string>& arguments) const;
    /// The words that run `program`; for those who wait themselves.
    std::vector<std::string> command(const std::string& name, const std::vector<std::string>& arguments) const;
    /// Everything below the folder of containers, with blanks between.
    std::string left() const;
};

/// With a shell, which is the node's: its /usr is mounted.
struct ShellScene : NamedScene {
    ShellScene();

    /// The words of `berth run OPTIONS IMAGE bash -c SCRIPT`.
    std::vector<std::string> words(std::vector<std::string> options, const std::string& script) const;
    /// Its output and "|CODE".
    std::string shell(const std::vector<std::string>& options, const std::string& script) const;
};

}  // namespace berth::kernel_test
