// How things are called inside the store. Pure.
#pragma once
#include <string>

#include "runtime/request/reference.hh"

namespace berth::store {

/// Directory of a repository's tags, relative to the store. A registry's `:` becomes `_`, which no host name has.
std::string refs_directory(const plan::Reference& reference);

/// File of a tag in it. The `:` keeps tags apart from repositories: r/a:b and r/a/b:c can both be there.
std::string tag_file(const plan::Reference& reference);

/// File in lists/ that says what an image index means on this machine.
std::string image_index_file(const Digest& digest);

/// "<hex>.sqfs", the name of a new layer in layers/ and in the index.
std::string layer_file_name(const Digest& diff_id);
/// How layer_file_name() called it once, whatever the codec. Stores of that time are as good as others.
std::string former_layer_file_name(const Digest& diff_id);
/// The other one of the two names of a layer's file; empty for what is neither.
std::string other_layer_file_name(const std::string& file);

}  // namespace berth::store
