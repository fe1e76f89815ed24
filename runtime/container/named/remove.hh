// The end of a named container.
#pragma once
#include <string>

#include "runtime/config/site.hh"
#include "runtime/container/named/folder.hh"
#include "runtime/request/request.hh"

namespace berth {

/// Removes a container with all that it wrote, and its claim to its image. One that runs is ended with `force`, else
/// refused. Throws Error, also when there is none of that name (what a kill left of it is gone then).
void remove_container(const ContainerFolder& folder, const std::string& name, bool force, const plan::Site& site,
                      const plan::Caller& caller);

}  // namespace berth
