// How podman, docker and containerd reach registries, and what becomes of it: registries.conf, certs.d, hosts.toml.
// Pure.
#pragma once
#include <string>
#include <vector>

#include "runtime/migrate/draft.hh"

namespace berth::migrate {

/// A registries.conf of podman's, or a file of registries.conf.d (containers-registries.conf(5), both versions).
void decide_registries(Draft& draft, const std::string& file, const std::string& text);

/// A hosts.toml of containerd's, in a folder with a registry's name: PATH/HOST/hosts.toml.
void decide_hosts(Draft& draft, const std::string& file, const std::string& text);

/// Files of a folder with a registry's name, certs.d/HOST: authorities (.crt), and what a client shows (.cert, .key).
void decide_certificates(Draft& draft, const std::vector<std::string>& files);

}  // namespace berth::migrate
