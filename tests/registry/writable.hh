// A registry that takes what is brought to it, by the OCI distribution specification 1.1: with or without its referrers
// API. A stand-in for the registries that have that API, none of which Debian has.
#pragma once
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "tests/registry/server.hh"

namespace berth::test {

class WritableRegistry {
  public:
    /// `has_referrers`: lists the referrers of a manifest, and says so when one is brought (OCI-Subject).
    explicit WritableRegistry(bool has_referrers) : has_referrers_(has_referrers) {}

    /// For Server.
    HttpReply answer(const HttpCall& call);

    /// The tags of a repository.
    std::vector<std::string> tags(const std::string& repository) const;
    /// What a tag means; empty when there is none.
    std::string manifest(const std::string& repository, const std::string& tag) const;

  private:
    struct Repository {
        std::map<std::string, Object> manifests;  ///< by digest
        std::map<std::string, std::string> tags;
        std::map<std::string, std::string> blobs;
    };
    HttpReply upload(Repository& repository, const HttpCall& call, const std::string& name);
    HttpReply blob(const Repository& repository, const std::string& digest) const;
    HttpReply at_manifest(Repository& repository, const HttpCall& call, const std::string& reference);
    HttpReply put_manifest(Repository& repository, const HttpCall& call, const std::string& reference) const;
    HttpReply referrers(const Repository& repository, const std::string& digest) const;
    HttpReply tag_list(const Repository& repository, const std::string& name) const;

    bool has_referrers_;
    mutable std::mutex mutex_;
    std::map<std::string, Repository> repositories_;
};

}  // namespace berth::test
